// The functions a script can call: one line each way, and every name that is not there.

#include "policy/lua/library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/policies.h"

namespace moonfence {
namespace {

using testing::HasSubstr;

struct Expression {
  const char* text;
  const char* value;
};

class Evaluated : public testing::TestWithParam<Expression> {};

TEST_P(Evaluated, to_this) {
  EXPECT_EQ(value_of(GetParam().text), GetParam().value) << GetParam().text;
}

INSTANTIATE_TEST_SUITE_P(
    Base, Evaluated,
    testing::Values(Expression{"type(nil)", "nil"}, Expression{"type({})", "table"},
                    Expression{"type(fence.skip)", "function"}, Expression{"tostring({})", "table"},
                    Expression{"tostring(type)", "function"}, Expression{"tostring(1.5)", "1.5"},
                    Expression{"tostring(10)", "10"}, Expression{"tostring(true)", "true"},
                    Expression{"tostring(pod)", "pod"}, Expression{"tonumber('12')", "12"},
                    Expression{"tonumber(' 0x10 ')", "16"}, Expression{"tonumber('1e2')", "100.0"},
                    Expression{"tonumber('x')", "nil"}, Expression{"tonumber('1 2')", "nil"},
                    Expression{"tonumber('1\\0')", "nil"}, Expression{"tonumber({})", "nil"},
                    Expression{"tonumber('-ff', 16)", "-255"},
                    Expression{"tonumber('8', 8)", "nil"}, Expression{"tonumber('', 10)", "nil"},
                    Expression{"select('#', 1, nil, 3)", "3"},
                    Expression{"select(2, 'a', 'b')", "b"}, Expression{"select(-1, 'a', 'b')", "b"},
                    Expression{"next({})", "nil"}, Expression{"next({ 5 })", "1"},
                    Expression{"assert(7, 'no')", "7"}, Expression{"duration('1h30m')", "5400"},
                    Expression{"duration('250ms')", "0.25"},
                    // One function each, although none is made before it is named.
                    Expression{"type == type and fence == fence", "true"},
                    Expression{"fence.skip == fence.skip", "true"},
                    Expression{"('x').upper == string.upper", "true"},
                    Expression{"fence.skip == fence.wait", "false"}));

INSTANTIATE_TEST_SUITE_P(
    String, Evaluated,
    testing::Values(
        Expression{"('abc'):len()", "3"}, Expression{"string.sub('abcdef', 2, 4)", "bcd"},
        Expression{"('abcdef'):sub(-3)", "def"}, Expression{"('abc'):sub(0, 99)", "abc"},
        Expression{"('abc'):sub(3, 2)", ""}, Expression{"('abc'):sub(-9, -3)", "a"},
        Expression{"('abc'):sub(math.mininteger, math.maxinteger)", "abc"},
        Expression{"('aBc1'):upper()", "ABC1"}, Expression{"('ABc1'):lower()", "abc1"},
        Expression{"('abc'):starts_with('ab')", "true"},
        Expression{"('abc'):starts_with('b')", "false"},
        Expression{"('abc'):ends_with('bc')", "true"}, Expression{"('abc'):contains('')", "true"},
        Expression{"('a.c'):contains('.')", "true"}, Expression{"('abc'):contains('.')", "false"},
        Expression{"('noobaa-db-0'):glob('noobaa-*-?')", "true"},
        Expression{"('noobaa'):glob('noobaa?')", "false"}, Expression{"(''):glob('*')", "true"},
        Expression{"('abcab'):glob('*ab')", "true"}, Expression{"('a'):glob('')", "false"},
        Expression{"table.concat(('a,b,,c'):split(','), '|')", "a|b||c"},
        Expression{"#(''):split(',')", "1"}, Expression{"(' \\t x \\n'):trim()", "x"},
        Expression{"('A'):byte()", "65"}, Expression{"('abc'):byte(-1)", "99"},
        Expression{"('abc'):byte(4)", "nil"}));

INSTANTIATE_TEST_SUITE_P(
    Format, Evaluated,
    testing::Values(
        Expression{"string.format('%s %d%%', 'x', 5)", "x 5%"},
        Expression{"string.format('%5d|%-5d|%05d|%+d', 42, 42, -42, 42)", "   42|42   |-0042|+42"},
        Expression{"string.format('%x %X %.4x', 255, 255, 10)", "ff FF 000a"},
        Expression{"string.format('%x', -1)", "ffffffffffffffff"},
        Expression{"string.format('%d', math.mininteger)", "-9223372036854775808"},
        Expression{"string.format('%.2f %e %g', 1.005, 12345.678, 0.5)", "1.00 1.234568e+04 0.5"},
        Expression{"#string.format('%.99f', 1e300)", "401"},
        Expression{"string.format('%f %f', math.huge, -math.huge)", "inf -inf"},
        Expression{"string.format('%.2s|%5s|%-5s|', 'abc', 'ab', 'ab')", "ab|   ab|ab   |"},
        Expression{"string.format('%s %s %s', nil, {}, true)", "nil table true"},
        Expression{"string.format('%c', 65)", "A"}));

INSTANTIATE_TEST_SUITE_P(
    Math, Evaluated,
    testing::Values(Expression{"math.floor(-1.5)", "-2"}, Expression{"math.ceil(-1.5)", "-1"},
                    Expression{"math.floor(7)", "7"}, Expression{"math.floor(1e300)", "1e+300"},
                    Expression{"math.abs(-3)", "3"}, Expression{"math.abs(-1.5)", "1.5"},
                    Expression{"math.min(3, 1.5, 2)", "1.5"}, Expression{"math.max(3, 9, 2)", "9"},
                    Expression{"math.tointeger(3.0)", "3"},
                    Expression{"math.tointeger(3.5)", "nil"},
                    Expression{"math.tointeger('3')", "nil"}, Expression{"math.huge", "inf"},
                    Expression{"math.maxinteger + 1 == math.mininteger", "true"}));

struct Program {
  const char* text;
  const char* outcome;
};

class Ran : public testing::TestWithParam<Program> {};

TEST_P(Ran, to_this) {
  EXPECT_EQ(outcome(GetParam().text), GetParam().outcome) << GetParam().text;
}

INSTANTIATE_TEST_SUITE_P(
    Table, Ran,
    testing::Values(
        Program{"local t = {} table.insert(t, 'b') table.insert(t, 1, 'a') table.insert(t, 3, 'c') "
                "return fence.skip(table.concat(t, '-'))",
                "skip: a-b-c"},
        Program{"local t = { 1, 2, 3 } local x = table.remove(t, 1) local y = table.remove(t) "
                "return fence.skip(x .. y .. #t .. tostring(table.remove({})))",
                "skip: 131nil"},
        Program{
            "local t = { 5, 2, 8, 1, 9, 3 } table.sort(t) return fence.skip(table.concat(t, ' '))",
            "skip: 1 2 3 5 8 9"},
        Program{"local t = { 'b', 'a', 'c' } table.sort(t, function(a, b) return a > b end) "
                "return fence.skip(table.concat(t))",
                "skip: cba"},
        Program{"local t = {} for i = 1, 9 do t[i] = { k = i % 2, i = i } end "
                "table.sort(t, function(a, b) return a.k < b.k end) local s = '' "
                "for _, v in ipairs(t) do s = s .. v.i end return fence.skip(s)",
                "skip: 246813579"},
        Program{"local t = { 1, 'a' } table.sort(t)",
                "test.lua:2: table.sort: cannot compare a text with an integer"},
        Program{
            "local t = { 3, 2, 1 } table.sort(t, function() for i = 1, 3 do t[i] = nil end end)",
            "test.lua:2: table.sort: the comparator changed the list"},
        Program{"return fence.skip(table.concat({ 1, 2.5, 'x' }, ', ', 2, 3))", "skip: 2.5, x"},
        Program{
            "return fence.skip(table.concat({ {} }))",
            "test.lua:2: table.concat: argument 1 has a table as item 1; only texts and numbers "
            "can be joined"},
        Program{
            "return fence.skip(table.concat(table.keys({ b = 1, a = 2, [2] = 3, [1] = 4 }), ','))",
            "skip: 1,2,a,b"},
        Program{"return table.keys({ [true] = 1 })",
                "test.lua:2: table.keys: argument 1 has a boolean as a key; only texts and numbers "
                "have an order"},
        Program{"return table.keys({ [true] = 1, [type] = 2, [{}] = 3, [false] = 4 })",
                "test.lua:2: table.keys: argument 1 has a table as a key; only texts and numbers "
                "have an order"},
        Program{"table.insert({}, 5, 'x')",
                "test.lua:2: table.insert: argument 2 is 5, outside of 1 to 1"},
        Program{"table.remove({ 1 }, 3)",
                "test.lua:2: table.remove: argument 2 is 3, outside of 1 to 1"},
        Program{"table.insert({}, nil)",
                "test.lua:2: table.insert: argument 2 must be a value, not nil"},
        Program{"table.insert({})",
                "test.lua:2: table.insert: write table.insert(list, value) or "
                "table.insert(list, at, value)"}));

INSTANTIATE_TEST_SUITE_P(
    Arguments, Ran,
    testing::Values(
        Program{"('x'):sub('1')",
                "test.lua:2: string.sub: argument 2 must be an integer, not a text"},
        Program{"('x'):sub(1.5)",
                "test.lua:2: string.sub: argument 2 must be an integer, not a number"},
        Program{"string.len(5)",
                "test.lua:2: string.len: argument 1 must be a text, not an integer"},
        Program{"ipairs(nil)", "test.lua:2: ipairs: argument 1 must be a list, not nil"},
        Program{"pairs('x')",
                "test.lua:2: pairs: argument 1 must be a table of the script's own, not a text"},
        Program{"next(pod.labels)",
                "test.lua:2: next: argument 1 must be a table of the script's own, not pod.labels"},
        Program{"select(0)", "test.lua:2: select: argument 1 is out of range"},
        Program{"select(-5, 1)", "test.lua:2: select: argument 1 is out of range"},
        Program{"assert(false)", "test.lua:2: assertion failed"},
        Program{"assert(nil, 'because')", "test.lua:2: because"},
        Program{"error('stop')", "test.lua:2: stop"}, Program{"error('stop', 0)", "test.lua: stop"},
        Program{"tonumber('1', 99)", "test.lua:2: tonumber: argument 2 must be from 2 to 36"},
        Program{"duration('5')",
                "test.lua:2: duration: '5' is no duration; write a number with a "
                "unit, such as 90s or 1h30m"},
        Program{"('a'):split('')", "test.lua:2: string.split: argument 2 must not be empty"},
        Program{"math.abs(math.mininteger)",
                "test.lua:2: math.abs: the smallest integer has no positive counterpart"},
        Program{"math.max()", "test.lua:2: math.max: argument 1 must be a number, not nothing"},
        Program{"log.info(5)", "test.lua:2: log.info: argument 1 must be a text, not an integer"},
        Program{"string.format('%d', 'x')",
                "test.lua:2: string.format: argument 2 must be an integer, not a text"},
        Program{"string.format('%d')",
                "test.lua:2: string.format: argument 2 must be given, not nothing"},
        Program{"string.format('%')",
                "test.lua:2: string.format: argument 1 ends inside of a % directive"},
        Program{
            "string.format('%p', {})",
            "test.lua:2: string.format: argument 1 has the unknown directive '%p'; known are %s "
            "%d %x %X %c %f %e %g %%"},
        Program{"return 'a' + 1",
                "test.lua:2: attempt to perform arithmetic on a string value (constant 'a')"},
        Program{"return '10' + 1",
                "test.lua:2: attempt to perform arithmetic on a string value (constant '10')"}));

INSTANTIATE_TEST_SUITE_P(
    Names, Ran,
    testing::Values(
        Program{"fnce.skip('x')", "test.lua:2: unknown global 'fnce' (did you mean 'fence'?)"},
        Program{"tostrng(1)", "test.lua:2: unknown global 'tostrng' (did you mean 'tostring'?)"},
        Program{"polcy{}", "test.lua:2: unknown global 'polcy' (did you mean 'policy'?)"},
        Program{"return zzz", "test.lua:2: unknown global 'zzz'"},
        Program{"return _ENV[1]", "test.lua:2: unknown global an integer"},
        Program{"string.uper('x')",
                "test.lua:2: unknown function 'uper' of 'string' (did you mean 'upper'?)"},
        Program{"('x'):lenn()",
                "test.lua:2: unknown function 'lenn' of 'string' (did you mean 'len'?)"},
        Program{"table.insrt({}, 1)",
                "test.lua:2: unknown function 'insrt' of 'table' (did you mean 'insert'?)"},
        Program{"return math.hug",
                "test.lua:2: unknown function 'hug' of 'math' (did you mean 'huge'?)"},
        Program{"log.warning('x')", "test.lua:2: unknown function 'warning' of 'log'"},
        Program{"x = 1",
                "test.lua:2: cannot set global 'x': the environment is read-only; use "
                "'local' for a variable"},
        Program{"fence = nil",
                "test.lua:2: cannot set global 'fence': the environment is read-only; "
                "use 'local' for a variable"},
        Program{"string.len = nil", "test.lua:2: cannot set 'len' of 'string': it is read-only"},
        Program{"fence.skip = print_", "test.lua:2: unknown global 'print_'"}));

// One environment everywhere: a name more or less is an incompatible change.
TEST(Environment, it_has_exactly_these_names) {
  std::string names;
  for (const policy::Library* library : policy::libraries()) {
    names += std::string(library->name) + ":";
    for (const auto& function : library->functions) {
      names += std::string(" ") + function.name;
      EXPECT_STRNE(function.signature, "") << function.name;
      EXPECT_STRNE(function.doc, "") << function.name;
    }
    for (const auto& constant : library->constants) {
      names += " " + std::string(constant);
    }
    names += "\n";
  }
  EXPECT_EQ(
      names,
      ": type tostring tonumber ipairs pairs next select error assert duration\n"
      ": policy fencer\n"
      "string: len sub lower upper format starts_with ends_with contains glob split trim byte\n"
      "table: insert remove concat sort contains keys\n"
      "math: floor ceil min max abs tointeger huge maxinteger mininteger\n"
      "log: info warn\n"
      "fence: skip forbid wait delete_pod delete_pod_and_attachments delete_attachments proceed "
      "hold taint_out_of_service http get list post create annotate try\n");
}

class Absent : public testing::TestWithParam<const char*> {};

TEST_P(Absent, is_an_unknown_global) {
  EXPECT_THAT(outcome(std::string("return ") + GetParam()),
              HasSubstr(std::string("unknown global '") + GetParam() + "'"));
}

INSTANTIATE_TEST_SUITE_P(StockNames, Absent,
                         testing::Values("pcall", "xpcall", "coroutine", "setmetatable",
                                         "getmetatable", "rawget", "rawset", "rawequal", "rawlen",
                                         "load", "loadstring", "loadfile", "dofile", "require",
                                         "package", "os", "io", "debug", "collectgarbage", "print",
                                         "warn", "_G", "_VERSION", "utf8", "bit32"));

class AbsentMember : public testing::TestWithParam<const char*> {};

TEST_P(AbsentMember, is_an_unknown_function) {
  EXPECT_THAT(outcome(std::string("return ") + GetParam()), HasSubstr("unknown function '"));
}

INSTANTIATE_TEST_SUITE_P(StockNames, AbsentMember,
                         testing::Values("string.rep", "string.find", "string.match",
                                         "string.gmatch", "string.gsub", "string.dump",
                                         "string.pack", "string.unpack", "string.packsize",
                                         "string.reverse", "string.char", "table.move",
                                         "table.unpack", "table.pack", "math.random",
                                         "math.randomseed", "math.type", "('x').rep"));

TEST(Environment, walking_it_finds_nothing) {
  EXPECT_EQ(value_of("next(_ENV)"), "nil");
  EXPECT_EQ(value_of("next(string)"), "nil");
  EXPECT_EQ(value_of("#table.keys(fence)"), "0");
}

}  // namespace
}  // namespace moonfence
