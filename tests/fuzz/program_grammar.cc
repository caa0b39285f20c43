#include "fuzz/program_grammar.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "fuzz/expressions.h"
#include "fuzz/statements.h"

namespace moonfence::fuzz {
namespace {

using Kind = Type::Kind;

class Writer {
 public:
  explicit Writer(Choices& choices)
      : choices_(choices), expressions_(choices), statements_(choices, expressions_) {}

  Program program() {
    // Upvalues of every evaluation: nothing in them may live on to the next one.
    statements_.line("local kept, count, texts = nil, 0, { 'b', 'a' }");
    expressions_.scope.push_back({.name = "count", .kind = Kind::Integer});
    expressions_.scope.push_back({.name = "texts", .kind = Kind::List, .item = "string"});
    statements_.run(4, 1);
    choose_needs();
    const std::string settings = settings_text();
    const std::string more = select_text() + needs_text() + other_keys();
    const bool bound = choices_.below(4) == 3;
    statements_.line(std::string(bound ? "local declared =" : "return") +
                     " policy { api = 1, name = 'test', version = '" +
                     std::string(choices_.of(kVersions)) + "', summary = 'at random',");
    statements_.line(settings + more);
    if (choices_.below(4) == 3) {
      write_source();
    } else {
      statements_.line(trigger_text());
    }
    if (expressions_.needs.contains("fetch")) {
      write_fetch();
    }
    if (choices_.below(4) == 3) {
      write_node();
    }
    write_pod();
    statements_.line("}");
    if (bound) {
      statements_.line("return declared");
    }
    Program made{.source = statements_.take(), .repeats = expressions_.repeats};
    made.settings = given_settings();
    damage(made);
    return made;
  }

 private:
  static constexpr std::array<std::string_view, 3> kVersions = {"1.0.0", "0.1.2-rc.1",
                                                                "10.20.30+b"};

  std::string setting(const std::string& name) {
    switch (choices_.below(7)) {
      case 0:
        add_setting(name, Kind::Integer);
        return "type = 'integer', default = 5, min = -1, max = 9, clamp = true";
      case 1:
        add_setting(name, Kind::Text);
        return "type = 'string', default = " + expressions_.plain(Kind::Text);
      case 2:
        add_setting(name, Kind::Boolean);
        return "type = 'boolean', default = true, doc = 'whether'";
      case 3:
        add_setting(name, Kind::Number);
        return "type = 'duration', default = '1m30s', min = '1s'";
      case 4:
        add_setting(name, Kind::Text);
        return "type = 'enum', values = { 'skip', 'pod' }, default = 'skip'";
      case 5:
        add_setting(name, Kind::List);
        return "type = 'list', of = 'string', default = { 'a', 'b' }";
      default:
        add_setting(name, Kind::Number);
        return "type = 'number', default = " +
               (choices_.once_in(8) ? expressions_.of(Kind::Number, 1) : std::string("0.5"));
    }
  }

  // What a binding sets, well or badly.
  nlohmann::json given_settings() {
    nlohmann::json given = nlohmann::json::object();
    const std::vector<nlohmann::json> values = {
        3,       "skip", true, 0.25, "90s",  {"x", "y"},         1e300,      -1,    "",
        nullptr, "a\nb", 12,   "7d", {1, 2}, {{"a", {nullptr}}}, UINT64_MAX, "\xff"};
    for (std::size_t left = choices_.below(3); left > 0; --left) {
      given["s" + std::to_string(choices_.below(4))] = choices_.of(values);
    }
    return given;
  }

  void add_setting(const std::string& name, Kind kind) {
    settings_.push_back({.name = "s." + name, .kind = kind, .item = "string", .writable = false});
  }

  std::string settings_text() {
    std::string text;
    const std::size_t count = choices_.below(4);
    for (std::size_t i = 0; i < count; ++i) {
      const std::string name = "s" + std::to_string(i);
      text += " " + name + " = { " + setting(name) + " },";
    }
    if (choices_.once_in(40)) {
      text += " s9 = " + expressions_.of(Kind::Any, 2) + ",";
    }
    return text.empty() ? "" : "settings = {" + text + " },\n";
  }

  std::string select_text() {
    constexpr std::array<std::string_view, 8> kSelectors = {
        "",       "app=web", "app in (web, db),!canary", "a.b/c", "tier notin (x)", " app == web ",
        "a in (", "=x"};
    if (choices_.below(3) < 2) {
      return "";
    }
    // The last two are none.
    const std::size_t good = kSelectors.size() - (choices_.once_in(10) ? 0 : 2);
    return "select = { labels = '" + std::string(kSelectors[choices_.below(good)]) + "' },\n";
  }

  std::string trigger_table() {
    std::string text = "{ failures = " + std::to_string(1 + choices_.below(5)) + ", interval = ";
    text += choices_.once_in(20) ? expressions_.of(Kind::Any, 2)
                                 : std::string(choices_.below(2) == 0 ? "'5s'" : "2.5");
    return text + ", sweep = " + expressions_.plain(Kind::Boolean) +
           ", deleted = " + expressions_.plain(Kind::Boolean) + " }";
  }

  std::string trigger_text() {
    switch (choices_.below(5)) {
      case 3:
        return "trigger = " + trigger_table() + ",\n";
      case 4:
        return "trigger = function(s) return " + trigger_table() + " end,\n";
      default:
        return "";
    }
  }

  std::string other_keys() {
    std::string text;
    if (choices_.below(4) == 3) {
      text += "doc = 'a longer text', ";
    }
    if (choices_.once_in(96)) {
      text += "needs = { " + expressions_.of(Kind::Text, 1) + " }, ";
    }
    if (choices_.once_in(64)) {
      text += "surprise = " + expressions_.of(Kind::Any, 1) + ", ";
    }
    return text;
  }

  void choose_needs() {
    for (const std::string& need : needs()) {
      if (choices_.below(3) == 2) {
        expressions_.needs.insert(need);
      }
    }
    if (choices_.below(4) == 3) {
      expressions_.needs.insert("fetch");
    }
  }

  std::string needs_text() {
    std::string text;
    for (const std::string& need : expressions_.needs) {
      text += need == "fetch" ? "" : " '" + need + "',";
    }
    return text.empty() ? "" : "needs = {" + text + " },\n";
  }

  // Begins a function of the policy; what it declares is forgotten by end_function().
  void begin_function(const std::string& head, Place place,
                      const std::vector<std::pair<std::string, std::string>>& inputs) {
    statements_.line(head);
    outside_ = expressions_.scope.size();
    expressions_.place = place;
    for (const auto& [name, item] : inputs) {
      expressions_.scope.push_back(
          {.name = name, .kind = Kind::Object, .item = item, .writable = false});
    }
    expressions_.scope.insert(expressions_.scope.end(), settings_.begin(), settings_.end());
  }

  void end_function() {
    statements_.line("end,");
    expressions_.place = Place::Load;
    expressions_.scope.resize(outside_);
  }

  // Requests for one or two rounds, by the answers so far.
  void write_requests() {
    expressions_.scope.push_back({.name = "got", .kind = Kind::Map, .writable = false});
    statements_.run(3, 1);
    statements_.line("if got.b then return nil end");
    std::string first = "{ a = " + expressions_.request(2);
    for (std::size_t more = choices_.below(choices_.once_in(16) ? 12 : 3); more > 0; --more) {
      first += ", more" + std::to_string(more) + " = " + expressions_.request(2);
    }
    statements_.line("if got.a then return { b = " + expressions_.request(2) + " } end");
    statements_.line("return " +
                     (choices_.once_in(24) ? expressions_.of(Kind::Any, 2) : first + " }"));
  }

  void write_fetch() {
    begin_function("fetch = function(pod, s, got)", Place::Fetch, {{"pod", "Pod"}});
    // What fetch asked for is not there before it is done.
    expressions_.needs.erase("fetch");
    write_requests();
    end_function();
    expressions_.needs.insert("fetch");
  }

  void write_source() {
    const bool by_settings = choices_.below(2) == 1;
    statements_.line(by_settings ? "source = function(s) return {" : "source = {");
    statements_.line(choices_.below(2) == 0 ? "every = '5s', expiry = '1h',"
                                            : "every = 30, expiry = 90,");
    begin_function("plan = function(s, got)", Place::Fetch, {});
    write_requests();
    end_function();
    begin_function("nodes = function(s, got)", Place::Load, {});
    expressions_.scope.push_back({.name = "got", .kind = Kind::Map, .writable = false});
    statements_.run(3, 1);
    statements_.line("return " + (choices_.once_in(12)
                                      ? expressions_.of(Kind::Any, 2)
                                      : "{ ['n1'] = 'healthy', n2 = 'failed', [" +
                                            expressions_.some_text(2) + "] = 'unknown' }"));
    end_function();
    statements_.line(by_settings ? "} end," : "},");
  }

  void write_node() {
    begin_function("node = function(node, s, cluster)", Place::Node,
                   {{"node", "Node"}, {"cluster", "Cluster"}});
    statements_.run(4, 2);
    statements_.line("return " + expressions_.verdict(2));
    end_function();
  }

  void write_pod() {
    begin_function(choices_.below(4) == 3 ? "pod = function(...) local pod, s, cluster, node = ..."
                                          : "pod = function(pod, s, cluster, node)",
                   Place::Pod, {{"pod", "Pod"}, {"cluster", "Cluster"}, {"node", "Node"}});
    if (choices_.below(3) == 2) {
      statements_.line("count = count + 1");
      statements_.line("kept = kept or " + expressions_.verdict(1));
    }
    statements_.run(10, 3);
    switch (choices_.below(10)) {
      case 8:
        statements_.line("return kept or " + expressions_.verdict(2));
        break;
      case 9:
        statements_.line("return " + expressions_.of(Kind::Any, 2));
        break;
      default:
        statements_.line("return " + expressions_.verdict(2));
    }
    end_function();
  }

  // Cuts, doubles or overwrites bytes, so that the compiler sees something else.
  void damage(Program& made) {
    if (!choices_.once_in(24)) {
      return;
    }
    for (std::size_t left = 1 + choices_.below(3); left > 0; --left) {
      const std::size_t at = choices_.below(made.source.size());
      const std::size_t length = 1 + choices_.below(12);
      switch (choices_.below(4)) {
        case 0:
          made.source.erase(at, length);
          break;
        case 1:
          made.source.insert(at, made.source.substr(at, length));
          break;
        case 2:
          made.source[at] = static_cast<char>(choices_.below(256));
          break;
        default:
          made.source.resize(at + 1);
      }
    }
    made.repeats = std::max(made.repeats, repeats_of(made.source));
  }

  Choices& choices_;
  Expressions expressions_;
  Statements statements_;
  std::vector<Variable> settings_;
  std::size_t outside_ = 0;  // variables in scope before the function that is being written
};

}  // namespace

Program random_program(Choices& choices) {
  return Writer(choices).program();
}

}  // namespace moonfence::fuzz
