#include "policy/input/inputs.h"

#include <set>
#include <string>

#include "policy/input/fields.h"

namespace moonfence::policy {
namespace {

using nlohmann::json;

json volume_json(const VolumeFacts& volume) {
  json object = {{"name", volume.name},
                 {"claim", volume.claim},
                 {"namespace", volume.space},
                 {"state", volume.state},
                 {"pv", volume.pv},
                 {"driver", volume.driver},
                 {"handle", volume.handle},
                 {"storage_class", volume.storage_class},
                 {"provisioner", volume.provisioner},
                 {"access_modes", volume.access_modes}};
  if (volume.attachment) {
    object["attachment"] = *volume.attachment;
  }
  return object;
}

json owner_json(const OwnerFacts& owner) {
  return {{"kind", owner.kind},
          {"name", owner.name},
          {"uid", owner.uid},
          {"apiVersion", owner.api_version}};
}

json sibling_json(const SiblingFacts& sibling) {
  return {{"name", sibling.name},
          {"uid", sibling.uid},
          {"node_name", sibling.node_name},
          {"claim", sibling.claim},
          {"phase", sibling.phase},
          {"ready", sibling.ready},
          {"terminating", sibling.terminating},
          {"attach_error", sibling.attach_error}};
}

// The member of each of spec.volumes beside its name says what kind it is.
json volume_kinds_of(const json* pod) {
  std::set<std::string> kinds;
  const json* volumes = member(pod, kSpec, "volumes");
  if (volumes != nullptr && volumes->is_array()) {
    for (const json& volume : *volumes) {
      if (volume.is_object()) {
        for (const auto& [key, value] : volume.items()) {
          if (key != kName && !value.is_null()) {
            kinds.insert(key);
          }
        }
      }
    }
  }
  return kinds;
}

}  // namespace

void add_pod_facts(Inputs& inputs, const PodFacts& facts, const Needs& needs) {
  inputs.claims = json::array();
  inputs.bound = json::array();
  // What was not declared cannot be read: nothing is made of it.
  if (needs.volumes && facts.volumes) {
    inputs.volumes = *facts.volumes;
    for (const VolumeFacts& volume : inputs.volumes) {
      inputs.claims.push_back(volume_json(volume));
      if (!volume.pv.empty()) {
        inputs.bound.push_back(inputs.claims.back());
        inputs.bound_at.push_back(inputs.claims.size() - 1);
      }
    }
  }
  if (needs.placement && facts.candidates) {
    inputs.placement = {{"candidates", *facts.candidates}};
  }
  inputs.owner_chain = json::array();
  if (needs.root_owner && facts.owner_chain) {
    for (const OwnerFacts& owner : *facts.owner_chain) {
      inputs.owner_chain.push_back(owner_json(owner));
    }
  }
  inputs.siblings = json::array();
  if (needs.siblings && facts.siblings) {
    for (const SiblingFacts& sibling : *facts.siblings) {
      inputs.siblings.push_back(sibling_json(sibling));
    }
  }
  inputs.volume_kinds = volume_kinds_of(inputs.pod.get());
  inputs.answers = &facts.fetched;
}

void push_answers(lua_State* lua) {
  push_view(lua, {.kind = View::Kind::Answers, .name = "got", .json = inputs_of(lua).answers});
}

void push_settings(lua_State* lua, const json& settings) {
  push_view(lua, {.kind = View::Kind::Settings, .name = "settings", .json = &settings});
}

}  // namespace moonfence::policy
