#include "app/settings/release_settings.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "app/settings/settings_values.h"
#include "base/text.h"

namespace moonfence::app {
namespace {

constexpr std::size_t kLongestName = 253;

// "namespace/name"; a Lease's name may contain dots.
std::optional<ObjectRef> parse_lease(const YAML::Node& value) {
  const std::string text = value.IsScalar() ? value.Scalar() : "";
  const std::size_t slash = text.find('/');
  if (slash == std::string::npos || !is_dns_label(text.substr(0, slash))) {
    return std::nullopt;
  }
  const std::string name = text.substr(slash + 1);
  const bool is_name =
      !name.empty() && name.size() <= kLongestName &&
      std::all_of(name.begin(), name.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.';
      });
  return is_name ? std::optional(ObjectRef{.space = Namespace(text.substr(0, slash)), .name = name})
                 : std::nullopt;
}

Failure bad_lease(const std::string& file, const YAML::Node& node, const YAML::Node& value,
                  const std::string& key) {
  return bad(file, node,
             key + ": '" + escaped(value.IsScalar() ? value.Scalar() : "…", 128) + "' is no Lease",
             "write namespace/name; `kubectl get leases -A` shows both");
}

}  // namespace

Result<void> read_controller_lease(const std::string& file, const YAML::Node& name,
                                   const YAML::Node& value, fence::ReleaseRules& rules) {
  const auto lease = parse_lease(value);
  if (!lease) {
    return bad_lease(file, name, value, name.Scalar());
  }
  rules.controller = *lease;
  return {};
}

Result<void> read_attacher_leases(const std::string& file, const YAML::Node& name,
                                  const YAML::Node& value, fence::ReleaseRules& rules) {
  if (!value.IsMap()) {
    return bad(file, name, "attacherLeases is no mapping",
               "write {DRIVER: NAMESPACE/NAME}, for example "
               "{csi.example.com: storage/external-attacher-leader-csi-example-com}");
  }
  for (const auto& entry : value) {
    const auto lease = parse_lease(entry.second);
    if (!entry.first.IsScalar() || entry.first.Scalar().empty() || !lease) {
      return bad_lease(file, entry.first, entry.second, "attacherLeases");
    }
    rules.attachers.insert_or_assign(entry.first.Scalar(), *lease);
  }
  return {};
}

}  // namespace moonfence::app
