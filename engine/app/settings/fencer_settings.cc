#include "app/settings/fencer_settings.h"

#include <array>
#include <charconv>
#include <string_view>

#include "app/settings/settings_values.h"
#include "base/text.h"
#include "policy/host/selector.h"

namespace moonfence::app {
namespace {

using nlohmann::json;

constexpr std::array<std::string_view, 6> kKeys = {"fencer", "file",     "isolate",
                                                   "nodes",  "settings", "switchOff"};
constexpr std::size_t kMostFencers = 32;

// What a policy's setting may be: a text, a number, a boolean, or a list of these.
json plain_value(const YAML::Node& value) {
  if (value.IsSequence()) {
    json list = json::array();
    for (const YAML::Node& each : value) {
      list.push_back(plain_value(each));
    }
    return list;
  }
  const std::string text = value.IsScalar() ? value.Scalar() : "";
  if (value.Tag() == "!") {  // it stood in quotes
    return text;
  }
  if (text == "true" || text == "false") {
    return text == "true";
  }
  std::int64_t whole = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), whole);
  if (error == std::errc() && end == text.data() + text.size() && !text.empty()) {
    return whole;
  }
  double number = 0;
  const auto [point, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
  return fault == std::errc() && point == text.data() + text.size() && !text.empty() ? json(number)
                                                                                     : json(text);
}

Result<void> read_one(const std::string& file, const YAML::Node& value, FencerSetting& into) {
  return each_entry(
      file, value, value, kKeys,
      [&](const std::string& key, const YAML::Node& at, const YAML::Node& given) -> Result<void> {
        if (key == "settings") {
          if (!given.IsMap()) {
            return bad(file, at, "settings: not a mapping", "write {NAME: VALUE}");
          }
          for (const auto& entry : given) {
            const std::string name = entry.first.IsScalar() ? entry.first.Scalar() : "";
            if (name.empty() || into.settings.contains(name) || entry.second.IsMap() ||
                entry.second.IsNull()) {
              return bad(file, entry.first, "settings: '" + escaped(name, 64) + "' is no setting",
                         "write {NAME: VALUE}, each name once; a value is a text, a number, a "
                         "boolean or a list of these");
            }
            into.settings[name] = plain_value(entry.second);
          }
          return {};
        }
        if (key == "switchOff" || key == "isolate") {
          const std::string text = given.IsScalar() ? given.Scalar() : "";
          (key == "isolate" ? into.isolate : into.switch_off) = text == "true";
          return text == "true" || text == "false"
                     ? Result<void>()
                     : bad(file, at, key + ": not a boolean", "write true or false");
        }
        if (!given.IsScalar() || given.Scalar().empty()) {
          return bad(file, at, key + ": not a text", "see docs/proof.md, Fencers");
        }
        std::string& text = key == "fencer" ? into.name : key == "file" ? into.file : into.nodes;
        text = given.Scalar();
        if (key == "nodes") {
          if (const auto selector = policy::LabelSelector::parse(text); !selector) {
            return bad(file, at, "nodes: " + selector.error().text,
                       "write a label selector, for example rack=4");
          }
        }
        return {};
      });
}

// Whoever says isolated is the last that is asked: behind it nobody would ever say off.
const FencerSetting* first_behind_isolation(const std::vector<FencerSetting>& fencers) {
  bool isolates = false;
  for (const FencerSetting& each : fencers) {
    if (isolates && each.name != kIsolatesOnly) {
      return &each;
    }
    isolates = isolates || each.name == kIsolatesOnly;
  }
  return nullptr;
}

}  // namespace

Result<void> read_fencers(const std::string& file, const YAML::Node& name, const YAML::Node& value,
                          std::vector<FencerSetting>& into) {
  if (!value.IsSequence() || value.size() > kMostFencers) {
    return bad(file, name, "fencers: not a list of at most " + std::to_string(kMostFencers),
               "write a list of {fencer: NAME}; the first that can say is believed");
  }
  for (const YAML::Node& each : value) {
    FencerSetting fencer;
    if (auto read = read_one(file, each, fencer); !read) {
      return read;
    }
    if (fencer.name.empty()) {
      return bad(file, each, "fencers: an entry names no fencer", "write fencer: redfish");
    }
    into.push_back(std::move(fencer));
  }
  if (const FencerSetting* behind = first_behind_isolation(into)) {
    return bad(file, name,
               "fencers: " + std::string(kIsolatesOnly) + " stands before " +
                   escaped(behind->name, 64) +
                   ", which would not be asked whether the machine is "
                   "off while the storage refuses it",
               "move " + std::string(kIsolatesOnly) + " to the end of the list");
  }
  return {};
}

}  // namespace moonfence::app
