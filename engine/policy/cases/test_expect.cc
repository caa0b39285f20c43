#include "policy/cases/test_expect.h"

#include <algorithm>
#include <array>
#include <string_view>

#include <nlohmann/json.hpp>

#include "base/text.h"
#include "policy/cases/test_value.h"
#include "policy/lua/library.h"

namespace moonfence::policy {
namespace {

using nlohmann::json;

std::optional<std::string> optional_text(const SpecTable& table, std::string_view key) {
  return table.has(key) ? std::optional(table.text(key, 4096)) : std::nullopt;
}

void read_outcome(lua_State* lua, const SpecTable& table, Expectation& expect) {
  constexpr std::array<std::string_view, 3> kOutcomes = {"not_selected", "deferred", "error"};
  if (!table.has("outcome")) {
    return;
  }
  const std::string word = table.text("outcome", 64);
  if (word == "not_selected") {
    expect.outcome = Expectation::Outcome::NotSelected;
  } else if (word == "deferred") {
    expect.outcome = Expectation::Outcome::Deferred;
  } else if (word == "error") {
    expect.outcome = Expectation::Outcome::Error;
  } else {
    raise_spec(lua, table.place("outcome"),
               "is '" + escaped(word, 64) + "'" + did_you_mean(word, kOutcomes) +
                   "; known are not_selected, deferred, error");
  }
}

bool is_node_verdict(std::string_view name) {
  return name == "proceed" || name == "hold" || name == "taint_out_of_service";
}

void check_verdict_name(lua_State* lua, const SpecTable& table, const std::string& verdict) {
  std::vector<std::string_view> known;
  std::string words;
  for (const HostFunction& function : fence_library().functions) {
    const std::string_view signature = function.signature;
    if (signature.ends_with("Verdict")) {
      known.emplace_back(function.name);
      words += (words.empty() ? "" : ", ") + std::string(function.name);
    }
  }
  if (std::find(known.begin(), known.end(), verdict) == known.end()) {
    raise_spec(lua, table.place("verdict"),
               "is '" + escaped(verdict, 64) + "'" + did_you_mean(verdict, known) + "; known are " +
                   words);
  }
}

void read_nodes(lua_State* lua, const SpecTable& table, Expectation& expect) {
  constexpr std::array<std::string_view, 3> kStates = {"healthy", "failed", "unknown"};
  table.push("nodes");
  const json nodes = json_at(lua, -1, table.place("nodes"));
  lua_pop(lua, 1);
  expect.of = Expectation::Of::Source;
  if (!nodes.is_object()) {
    raise_spec(lua, table.place("nodes"), "must be a table of states by node name");
  }
  for (const auto& [name, state] : nodes.items()) {
    const std::string word = state.is_string() ? state.get<std::string>() : "";
    if (std::find(kStates.begin(), kStates.end(), word) == kStates.end()) {
      raise_spec(
          lua, table.place("nodes"),
          "gives '" + escaped(name, 64) + "' a state that is none of healthy, failed, unknown");
    }
    expect.nodes[name] = word;
  }
}

void read_seconds(lua_State* lua, const SpecTable& table, Expectation& expect) {
  if (table.push("seconds") != LUA_TNIL) {
    if (lua_type(lua, -1) != LUA_TNUMBER) {
      raise_spec_type(lua, table.place("seconds"), "a number", -1);
    }
    expect.seconds = lua_tonumber(lua, -1);
    if (expect.verdict != "wait" && expect.verdict != "hold" &&
        expect.verdict != "delete_attachments") {
      raise_spec(lua, table.place("seconds"),
                 "belongs to the verdicts wait, hold and delete_attachments alone");
    }
  }
  lua_pop(lua, 1);
}

// What the options of a verdict are expected to be.
void read_options(lua_State* lua, const SpecTable& table, Expectation& expect) {
  if (table.has("release")) {
    if (expect.verdict != "delete_pod_and_attachments") {
      raise_spec(lua, table.place("release"),
                 "belongs to the verdict delete_pod_and_attachments alone");
    }
    expect.release = table.boolean_or("release", false);
  }
  if (table.has("fail")) {
    if (expect.verdict != "delete_pod" && expect.verdict != "delete_pod_and_attachments") {
      raise_spec(lua, table.place("fail"),
                 "belongs to the verdicts delete_pod and delete_pod_and_attachments alone");
    }
    expect.fail = table.boolean_or("fail", false);
  }
  if (table.has("proof")) {
    if (!expect.verdict.starts_with("delete_") && expect.verdict != "taint_out_of_service") {
      raise_spec(lua, table.place("proof"), "belongs to the verdicts that delete or evict pods");
    }
    expect.proof = EvidenceSet();
    for (const std::string& word : read_texts(lua, table, "proof")) {
      const auto evidence = find_evidence(word);
      if (!evidence) {
        raise_spec(lua, table.place("proof"),
                   "names '" + escaped(word, 64) +
                       "', which is not one of: " + evidence_words(all_evidence(), ", "));
      }
      expect.proof->insert(*evidence);
    }
  }
  expect.on_timeout = optional_text(table, "on_timeout");
  if (!expect.on_timeout) {
    return;
  }
  if (expect.verdict != "delete_attachments") {
    raise_spec(lua, table.place("on_timeout"), "belongs to the verdict delete_attachments alone");
  }
  if (*expect.on_timeout != "hold" && *expect.on_timeout != "delete") {
    raise_spec(lua, table.place("on_timeout"),
               "is '" + escaped(*expect.on_timeout, 64) + "'; it is hold or delete");
  }
}

}  // namespace

Expectation read_expectation(lua_State* lua, const std::string& place) {
  constexpr std::array<std::string_view, 12> kKeys = {"verdict", "reason", "seconds",    "outcome",
                                                      "message", "reads",  "volumes",    "release",
                                                      "fail",    "nodes",  "on_timeout", "proof"};
  const SpecTable table = table_on_top(lua, place);
  table.check_keys(kKeys);
  Expectation expect;
  read_outcome(lua, table, expect);
  const bool decided = table.has("verdict");
  const int said =
      (decided ? 1 : 0) + (table.has("outcome") ? 1 : 0) + (table.has("nodes") ? 1 : 0);
  if (said != 1) {
    raise_spec(lua, place,
               said == 0 ? "says nothing; give it verdict = 'skip', 'delete_pod', ... or outcome"
                         : "has more than one of verdict, outcome and nodes; a case meets one");
  }
  if (decided) {
    expect.verdict = table.text("verdict", 64);
    check_verdict_name(lua, table, expect.verdict);
    expect.of = is_node_verdict(expect.verdict) ? Expectation::Of::Node : Expectation::Of::Pod;
  }
  if (table.has("nodes")) {
    read_nodes(lua, table, expect);
  }
  for (const std::string_view key : {"reason", "volumes"}) {
    if (!decided && table.has(key)) {
      raise_spec(lua, table.place(key), "belongs to a verdict");
    }
  }
  expect.reason = optional_text(table, "reason");
  read_seconds(lua, table, expect);
  read_options(lua, table, expect);
  expect.message = optional_text(table, "message");
  if (expect.message && expect.outcome != Expectation::Outcome::Error) {
    raise_spec(lua, table.place("message"), "belongs to outcome = 'error' alone");
  }
  expect.reads = read_texts(lua, table, "reads");
  if (table.has("volumes")) {
    expect.volumes = read_texts(lua, table, "volumes");
  }
  lua_pop(lua, 1);
  return expect;
}

std::vector<std::string> read_texts(lua_State* lua, const SpecTable& table, std::string_view key) {
  std::vector<std::string> texts;
  if (table.push(key) != LUA_TNIL) {
    const json value = json_at(lua, -1, table.place(key));
    const bool is_list = value.is_array() || (value.is_object() && value.empty());
    if (!is_list || std::any_of(value.begin(), value.end(),
                                [](const json& element) { return !element.is_string(); })) {
      raise_spec(lua, table.place(key), "must be a list of texts");
    }
    for (const json& element : value) {
      texts.push_back(element.get<std::string>());
    }
  }
  lua_pop(lua, 1);
  return texts;
}

}  // namespace moonfence::policy
