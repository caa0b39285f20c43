#include "policy/bundle/last_good.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>
#include <utility>

#include "base/sha256.h"
#include "base/text.h"
#include "kube/text/json.h"

namespace moonfence::policy {
namespace {

using nlohmann::json;

constexpr std::size_t kMostBytes = 900U << 10U;
constexpr std::size_t kMostDecodedBytes = 1U << 20U;
constexpr const char* kIndexKey = "index.json";
constexpr const char* kMapUidKey = "config-map-uid";

std::string source_key(const std::string& digest) {
  return "source-" + digest + ".lua";
}

json scope_json(const NamespaceScope& scope) {
  json names = json::array();
  if (scope.is_everywhere()) {
    names.push_back("*");
  }
  for (const Namespace& name : scope.names()) {
    names.push_back(name.text());
  }
  return names;
}

NamespaceScope scope_from(const json& names) {
  std::set<Namespace> out;
  for (const json& name : names) {
    if (name == "*") {
      return NamespaceScope::everywhere();
    }
    out.insert(Namespace(name.is_string() ? name.get<std::string>() : std::string()));
  }
  return NamespaceScope::of(std::move(out));
}

// Each named by its key of `allow`.
constexpr std::array<std::pair<std::string_view, bool Allowances::*>, 3> kAllowances = {
    {{"out-of-service", &Allowances::out_of_service},
     {"bare-pods", &Allowances::bare_pods},
     {"finished-pods", &Allowances::finished_pods}}};

// How long each waits, by its key; the other one goes by Kubernetes' word.
constexpr std::array<std::pair<std::string_view, ActOn>, 2> kAfterKeys = {
    {{"lostAfter", ActOn::Lost}, {"offAfter", ActOn::Off}}};

json allow_json(const Allowances& allow) {
  json words = json::array();
  for (const auto& [word, member] : kAllowances) {
    if (allow.*member) {
      words.push_back(word);
    }
  }
  return words;
}

// Tolerant: what cannot be read was not let go far.
void read_reach(const json& row, LastGoodEntry& into) {
  if (const auto mode = row.find("mode"); mode != row.end() && mode->is_string()) {
    into.mode = parse_mode(mode->get_ref<const std::string&>()).value_or(Mode::Observe);
  }
  if (const auto held = row.find("holdDown"); held != row.end() && held->is_string()) {
    into.hold_down = parse_duration(held->get_ref<const std::string&>()).value_or(kHoldDown);
  }
  for (const auto& [key, act_on] : kAfterKeys) {
    const auto found = row.find(key);
    const auto after = found != row.end() && found->is_string()
                           ? parse_duration(found->get_ref<const std::string&>())
                           : std::nullopt;
    if (after) {
      into.allow.act_on = act_on;
      into.allow.after = *after;
    }
  }
  const auto allow = row.find("allow");
  if (allow == row.end() || !allow->is_array()) {
    return;
  }
  for (const auto& [word, member] : kAllowances) {
    into.allow.*member = std::find(allow->begin(), allow->end(), json(word)) != allow->end();
  }
}

Result<LastGoodEntry> decode_entry(const json& row, const ConfigMapData& data) {
  kube::Fields fields(row);
  LastGoodEntry entry;
  entry.policy = fields.required({"policy"});
  entry.source_name = fields.required({"source"});
  const std::string digest = fields.required({"digest"});
  const json* names = fields.array({"namespaces"});
  const json* settings = fields.object({"settings"});
  if (fields.fault()) {
    return failure(*fields.fault());
  }
  if (names != nullptr) {
    entry.scope = scope_from(*names);
  }
  if (settings != nullptr) {
    entry.settings = *settings;
  }
  read_reach(row, entry);
  const auto source = data.find(source_key(digest));
  if (source == data.end() || sha256_hex(source->second) != digest) {
    return failure(Error::Kind::Malformed,
                   "policy '" + escaped(entry.policy, 64) + "': its source " +
                       (source == data.end() ? "is missing" : "does not match its digest"));
  }
  entry.source = source->second;
  return entry;
}

}  // namespace

const LastGoodEntry* LastGood::find(const BindingSpec& binding, bool only) const {
  const LastGoodEntry* same_policy = nullptr;
  std::size_t count = 0;
  for (const LastGoodEntry& entry : entries) {
    if (entry.policy != binding.policy || entry.allow.act_on != binding.allow.act_on) {
      continue;
    }
    if (entry.scope == binding.scope) {
      return &entry;
    }
    same_policy = &entry;
    ++count;
  }
  return only && count == 1 ? same_policy : nullptr;
}

ConfigMapData encode_last_good(const LastGood& good) {
  ConfigMapData data;
  json index = json::array();
  // The index itself is small but for its settings, which are counted with their entry.
  std::size_t bytes = good.bindings.size();
  data[std::string(kBindingsKey)] = good.bindings;
  data[kMapUidKey] = good.map_uid.text();
  for (const LastGoodEntry& entry : good.entries) {
    const std::string digest = sha256_hex(entry.source);
    const std::string key = source_key(digest);
    json row = {{"policy", entry.policy},
                {"namespaces", scope_json(entry.scope)},
                {"source", entry.source_name},
                {"settings", entry.settings},
                {"mode", to_string(entry.mode)},
                {"allow", allow_json(entry.allow)},
                {"holdDown", format_duration(entry.hold_down)},
                {"digest", digest}};
    for (const auto& [after_key, act_on] : kAfterKeys) {
      if (entry.allow.act_on == act_on) {
        row[after_key] = format_duration(entry.allow.after);
      }
    }
    const std::size_t more =
        kube::to_text(row).size() + (data.contains(key) ? 0 : key.size() + entry.source.size());
    if (bytes + more > kMostBytes) {
      continue;
    }
    bytes += more;
    index.push_back(std::move(row));
    data[key] = entry.source;
  }
  data[kIndexKey] = kube::to_text(index);
  return data;
}

DecodedLastGood decode_last_good(const ConfigMapData& data) {
  DecodedLastGood out;
  const auto index = data.find(kIndexKey);
  if (index == data.end()) {
    return out;
  }
  const auto rows = kube::parse_json(index->second);
  if (!rows || !rows->is_array()) {
    out.faults.push_back(std::string(kIndexKey) + ": " + (rows ? "is no list" : rows.error().text));
    return out;
  }
  if (rows->size() > kMostPolicies) {
    out.faults.push_back(std::string(kIndexKey) + ": has " + std::to_string(rows->size()) + " of " +
                         std::to_string(kMostPolicies) + " entries; the rest is not used");
  }
  // One source may serve many rows, and each row gets a copy.
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < std::min(rows->size(), kMostPolicies); ++i) {
    auto entry = decode_entry((*rows)[i], data);
    bytes += entry ? entry->source.size() + kube::to_text(entry->settings).size() : 0;
    if (bytes > kMostDecodedBytes) {
      out.faults.push_back(std::string(kIndexKey) + ": its entries have more than " +
                           std::to_string(kMostDecodedBytes) + " bytes; the rest is not used");
      break;
    }
    if (entry) {
      out.good.entries.push_back(*std::move(entry));
    } else {
      out.faults.push_back(std::move(entry.error()).within(kIndexKey).text);
    }
  }
  if (const auto text = data.find(std::string(kBindingsKey)); text != data.end()) {
    out.good.bindings = text->second;
  }
  if (const auto uid = data.find(kMapUidKey); uid != data.end()) {
    out.good.map_uid = Uid(uid->second);
  }
  return out;
}

}  // namespace moonfence::policy
