#include "app/machines/witness_watch.h"

#include <charconv>
#include <string_view>
#include <utility>

#include "kube/text/json.h"

namespace moonfence::app {
namespace {

constexpr const char* kStatus = "moonfence-status";

kube::WatchTarget target_in(const Namespace& space) {
  return {.resource = "configmaps",
          .path = "/api/v1/namespaces/" + space.text() + "/configmaps",
          .field_selector = std::string("metadata.name=") + kStatus,
          .label_selector = {}};
}

// "10.244.1.5:8081", "[fd00::5]:8081": never a name, and nothing that would change a URL.
bool is_address(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0) {
    return false;
  }
  const std::string_view port = text.substr(colon + 1);
  unsigned number = 0;
  const auto [end, error] = std::from_chars(port.begin(), port.end(), number);
  if (error != std::errc() || end != port.end() || number == 0 || number > 0xFFFF) {
    return false;
  }
  const std::string_view host = text.substr(0, colon);
  return host.starts_with('[') && host.ends_with(']')
             ? host.substr(1, host.size() - 2).find_first_not_of("0123456789abcdefABCDEF:.") ==
                   std::string_view::npos
             : host.find_first_not_of("0123456789.") == std::string_view::npos;
}

std::string text_at(const nlohmann::json& object, const char* pointer) {
  const nlohmann::json::json_pointer at(pointer);
  return object.contains(at) && object.at(at).is_string() ? object.at(at).get<std::string>()
                                                          : std::string();
}

}  // namespace

std::vector<cluster::Witnesses::Replica> witnesses_in(const nlohmann::json& data,
                                                      const std::string& own) {
  std::vector<cluster::Witnesses::Replica> found;
  if (!data.is_object()) {
    return found;
  }
  for (const auto& [name, text] : data.items()) {
    const auto status = text.is_string() ? kube::parse_json(text.get<std::string>())
                                         : Result<nlohmann::json>(nlohmann::json());
    if (name == own || !status) {
      continue;
    }
    cluster::Witnesses::Replica replica{
        .name = name,
        .address = text_at(*status, "/situation/witness/address"),
        .public_key = text_at(*status, "/situation/witness/publicKey")};
    if (is_address(replica.address) && !replica.public_key.empty()) {
      found.push_back(std::move(replica));
    }
  }
  return found;
}

WitnessWatch::WitnessWatch(const Surroundings& around, const Namespace& space, std::string own,
                           cluster::Witnesses& witnesses)
    : own_(std::move(own)),
      witnesses_(witnesses),
      watch_(around.loop, around.caller, around.random, around.log, target_in(space), *this) {}

void WitnessWatch::on_apply(const nlohmann::json& object) {
  see(object);
  tell();
}

void WitnessWatch::on_delete(const nlohmann::json& object) {
  if (text_at(object, "/metadata/name") == kStatus) {
    seen_ = nullptr;
    tell();
  }
}

// A server may ignore the field selector.
void WitnessWatch::see(const nlohmann::json& object) {
  const nlohmann::json::json_pointer data("/data");
  if (text_at(object, "/metadata/name") == kStatus) {
    seen_ = object.contains(data) ? object.at(data) : nlohmann::json();
  }
}

void WitnessWatch::tell() {
  witnesses_.know(witnesses_in(seen_, own_));
}

}  // namespace moonfence::app
