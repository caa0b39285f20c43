#include "policy/input/node_conditions.h"

#include <algorithm>
#include <string>

#include "policy/input/fields.h"
#include "policy/input/inputs.h"

namespace moonfence::policy {
namespace {

using nlohmann::json;

constexpr std::string_view kType = "type";
constexpr std::string_view kMessage = "message";

constexpr std::array<Field, 6> kConditionFields = {{
    {"type", push_text_member<kType>, "string", "such as Ready or MemoryPressure"},
    {"status", push_text_member<kStatus>, "string", "True, False or Unknown"},
    {"reason", push_text_member<kReason>, "string", "such as NodeStatusUnknown"},
    {"message", push_text_member<kMessage>, "string", "the same in words"},
    {"last_transition_time",
     [](lua_State* lua, const View& v) { push_time(lua, member(v.json, "lastTransitionTime")); },
     "integer?", "since when it has this status; Unix seconds by the clock of whoever wrote it"},
    {"last_heartbeat_time",
     [](lua_State* lua, const View& v) { push_time(lua, member(v.json, "lastHeartbeatTime")); },
     "integer?", "when it was last said; likewise"},
}};
constexpr Shape kCondition{.name = "condition",
                           .class_name = "NodeCondition",
                           .doc = "A condition of a node.",
                           .fields = kConditionFields};

template <std::size_t kAt>
void push_planned(lua_State* lua, const View& view) {
  const json* condition = member(view.json, kPlannedTypes[kAt]);
  if (condition == nullptr) {
    lua_pushnil(lua);
    return;
  }
  push_view(lua, {.name = "condition", .json = condition, .shape = &kCondition});
}

void push_types(lua_State* lua, const View& view) {
  push_view(
      lua,
      {.kind = View::Kind::List, .name = "node.planned.types", .json = member(view.json, "types")});
}
void push_unknown(lua_State* lua, const View& view) {
  push_view(lua, {.kind = View::Kind::List,
                  .name = "node.planned.unknown",
                  .json = member(view.json, "unknown")});
}

constexpr std::array<Field, 7> kPlannedFields = {{
    {kPlannedTypes[0], push_planned<0>, "NodeCondition?", "its kubelet is shutting it down"},
    {kPlannedTypes[1], push_planned<1>, "NodeCondition?", "somebody is moving its pods away"},
    {kPlannedTypes[2], push_planned<2>, "NodeCondition?", "its pods were moved away"},
    {kPlannedTypes[3], push_planned<3>, "NodeCondition?", "maintenance is to come"},
    {kPlannedTypes[4], push_planned<4>, "NodeCondition?", "somebody works on its machine"},
    {"types", push_types, "string[]", "those of the five that are True"},
    {"unknown", push_unknown, "string[]", "those of the five that are Unknown"},
}};
constexpr Shape kPlanned{
    .name = "node.planned",
    .class_name = "Planned",
    .doc =
        "What is planned for the node, by the lifecycle conditions of KEP-5683. Each is its "
        "condition while that is True, and nil otherwise. Whoever may write the node's status "
        "may write them: they are no evidence.",
    .fields = kPlannedFields};

}  // namespace

json planned_of(const json* node) {
  const json* conditions = member(node, kStatus, "conditions");
  if (conditions == nullptr || !conditions->is_array()) {
    return {};
  }
  // Of a type that is listed twice, True counts; else Unknown.
  std::array<const json*, kPlannedTypes.size()> present = {};
  std::array<bool, kPlannedTypes.size()> unknown = {};
  for (const json& condition : *conditions) {
    const auto* const type =
        std::find(kPlannedTypes.begin(), kPlannedTypes.end(), text_of(member(&condition, kType)));
    if (type == kPlannedTypes.end()) {
      continue;
    }
    const auto at = static_cast<std::size_t>(type - kPlannedTypes.begin());
    const std::string_view status = text_of(member(&condition, kStatus));
    if (status == "True") {
      present[at] = present[at] == nullptr ? &condition : present[at];
    } else if (status != "False") {
      unknown[at] = true;
    }
  }
  json planned;
  for (std::size_t at = 0; at < kPlannedTypes.size(); ++at) {
    if (present[at] != nullptr) {
      planned[std::string(kPlannedTypes[at])] = *present[at];
      planned["types"].push_back(kPlannedTypes[at]);
    } else if (unknown[at]) {
      planned["unknown"].push_back(kPlannedTypes[at]);
    }
  }
  return planned;
}

void push_node_conditions(lua_State* lua, const View& view) {
  push_view(lua, {.kind = View::Kind::List,
                  .name = "node.conditions",
                  .json = member(view.json, kStatus, "conditions"),
                  .shape = &kCondition});
}

void push_node_planned(lua_State* lua, const View&) {
  push_view(lua, {.name = "node.planned", .json = &inputs_of(lua).planned, .shape = &kPlanned});
}

const Shape& condition_shape() {
  return kCondition;
}

const Shape& planned_shape() {
  return kPlanned;
}

}  // namespace moonfence::policy
