#include "policy/kit/reference.h"

#include <set>
#include <string>

#include <gtest/gtest.h>

#include "support/policies.h"

namespace moonfence {
namespace {

using policy::FunctionReference;
using policy::Reference;
using policy::reference;

const FunctionReference& function_named(const Reference& all, const std::string& name) {
  for (const auto& function : all.functions) {
    if (function.full_name() == name) {
      return function;
    }
  }
  ADD_FAILURE() << "no function " << name;
  return all.functions.front();
}

TEST(Reference, a_signature_is_taken_apart) {
  const Reference all = reference();
  const auto& sub = function_named(all, "string.sub");
  ASSERT_EQ(sub.parameters.size(), 3U);
  EXPECT_EQ(sub.parameters[0].name, "s");
  EXPECT_EQ(sub.parameters[0].type, "string");
  EXPECT_FALSE(sub.parameters[1].optional);
  EXPECT_EQ(sub.parameters[2].name, "j");
  EXPECT_TRUE(sub.parameters[2].optional);
  EXPECT_EQ(sub.returns, "string");

  const auto& sort = function_named(all, "table.sort");
  ASSERT_EQ(sort.parameters.size(), 2U);
  EXPECT_EQ(sort.parameters[1].type, "fun(a: any, b: any): boolean");
  EXPECT_EQ(sort.returns, "");

  EXPECT_EQ(function_named(all, "pairs").returns, "function, any, any");
  EXPECT_EQ(function_named(all, "fence.wait").parameters[1].name, "seconds");
  EXPECT_EQ(function_named(all, "string.format").parameters[1].name, "...");
}

TEST(Reference, everything_has_a_name_a_type_and_a_line_of_text) {
  const Reference all = reference();
  for (const auto& function : all.functions) {
    EXPECT_FALSE(function.doc.empty()) << function.full_name();
    for (const auto& parameter : function.parameters) {
      EXPECT_FALSE(parameter.name.empty()) << function.full_name();
      EXPECT_FALSE(parameter.type.empty()) << function.full_name();
    }
  }
  for (const auto& object : all.objects) {
    EXPECT_FALSE(object.doc.empty()) << object.class_name;
    for (const auto& field : object.fields) {
      EXPECT_FALSE(field.type.empty()) << object.class_name << "." << field.name;
      EXPECT_FALSE(field.doc.empty()) << object.class_name << "." << field.name;
    }
  }
  for (const auto& table : all.tables) {
    for (const auto& key : table.keys) {
      EXPECT_FALSE(key.type.empty()) << table.class_name << "." << key.name;
      EXPECT_FALSE(key.doc.empty()) << table.class_name << "." << key.name;
    }
  }
}

// Each field of a pod can be read once its need is declared, and not before.
TEST(Reference, the_fields_of_a_pod_are_those_that_can_be_read) {
  for (const auto& object : reference().objects) {
    if (object.class_name != "Pod") {
      continue;
    }
    for (const auto& field : object.fields) {
      const std::string read = "pod." + std::string(field.name);
      const std::string need(field.need);
      const std::string declared = need.empty()      ? ""
                                   : need == "fetch" ? "fetch = function() end,"
                                                     : "needs = { '" + need + "' },";
      EXPECT_EQ(value_of(read + " == false and 'read' or 'read'", declared), "read") << read;
      if (!need.empty()) {
        EXPECT_NE(value_of(read).find("declare "), std::string::npos) << read;
      }
    }
  }
}

TEST(Reference, globals_are_sorted_and_each_stands_there_once) {
  std::set<std::string_view> names;
  std::string_view before;
  for (const auto& global : reference().globals) {
    EXPECT_LT(before, global.name);
    before = global.name;
    names.insert(global.name);
  }
  for (const char* name : {"fence", "policy", "string", "table", "math", "log", "ipairs"}) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
}

}  // namespace
}  // namespace moonfence
