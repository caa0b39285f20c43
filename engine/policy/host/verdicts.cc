#include "policy/host/verdicts.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <new>
#include <set>
#include <span>
#include <vector>

#include "base/text.h"
#include "policy/host/keys.h"
#include "policy/input/fields.h"
#include "policy/input/inputs.h"
#include "policy/lua/library.h"
#include "policy/lua/sandbox.h"
#include "policy/lua/spec.h"
#include "policy/lua/trace.h"

namespace moonfence::policy {

namespace {

constexpr std::size_t kLongestReason = 512;
constexpr std::size_t kEllipsis = 3;  // bytes of "…"
constexpr double kShortestWait = 1;
constexpr double kLongestWait = 3600;
constexpr double kUsualWait = 10;
constexpr double kUsualHold = 30;
constexpr double kUsualAttachmentWait = 60;

using VolumeIndexes = std::set<std::size_t>;

// Followed in its memory by the positions of its volumes in Inputs::volumes.
struct Held {
  bool of_node = false;
  Verdict::Kind kind = Verdict::Kind::Skip;
  NodeVerdict::Kind node_kind = NodeVerdict::Kind::Proceed;
  double wait_seconds = 0;
  bool release = false;
  bool fail = false;
  Verdict::OnTimeout on_timeout = Verdict::OnTimeout::Hold;
  EvidenceSet proof = {};
  std::size_t volume_count = 0;
  std::size_t reason_size = 0;
  std::array<char, kLongestReason> reason{};
};
static_assert(std::is_trivially_destructible_v<Held>);
static_assert(alignof(Held) >= alignof(std::size_t) && sizeof(Held) % alignof(std::size_t) == 0);

std::string reason_argument(lua_State* lua) {
  if (lua_type(lua, 1) != LUA_TSTRING) {
    raise_argument(lua, 1, "the reason, a text");
  }
  std::string reason = escaped(trimmed(text_at(lua, 1)), kLongestReason - kEllipsis);
  if (reason.empty()) {
    raise(lua,
          function_name(lua) + ": argument 1 must be the reason; an empty text tells nobody why");
  }
  return reason;
}

double clamped_wait(double seconds) {
  return std::clamp(seconds, kShortestWait, kLongestWait);
}

int push_held(lua_State* lua, Held held, const VolumeIndexes& volumes = {}) {
  const Hook wanted = held.of_node ? Hook::Node : Hook::Pod;
  if (Sandbox::of(lua).session.hook != wanted) {
    raise(lua, function_name(lua) +
                   (held.of_node ? ": a verdict is about one node; make it inside of node()"
                                 : ": a verdict is about one pod; make it inside of pod()"));
  }
  const std::string reason = reason_argument(lua);
  held.reason_size = std::min(reason.size(), held.reason.size());
  held.volume_count = volumes.size();
  void* const bytes =
      push_opaque(lua, kVerdictType, sizeof(Held) + volumes.size() * sizeof(std::size_t));
  auto* placed = new (bytes) Held(held);
  std::copy_n(reason.begin(), placed->reason_size, placed->reason.begin());
  std::copy(volumes.begin(), volumes.end(),
            static_cast<std::size_t*>(static_cast<void*>(placed + 1)));
  trace_made(lua, held.of_node ? to_string(held.node_kind) : to_string(held.kind));
  return 1;
}

const Held* to_held(lua_State* lua, int index) {
  return static_cast<const Held*>(to_opaque(lua, index, kVerdictType));
}

std::span<const std::size_t> volumes_of(const Held& held) {
  return {static_cast<const std::size_t*>(static_cast<const void*>(&held + 1)), held.volume_count};
}

double seconds_argument(lua_State* lua, int index) {
  const double seconds = number_argument(lua, index);
  if (std::isnan(seconds)) {
    raise(lua, function_name(lua) + ": argument " + std::to_string(index) +
                   " is not a number of seconds but 0/0");
  }
  return clamped_wait(seconds);
}

// ---- volumes ---------------------------------------------------------------------------------

// The value on top, which is the i-th of a list of volumes.
std::size_t volume_on_top(lua_State* lua, int index, lua_Unsigned i) {
  const auto volume = to_volume(lua, -1);
  const std::string place =
      function_name(lua) + ": argument " + std::to_string(index) + "[" + std::to_string(i) + "]";
  if (!volume) {
    raise(lua, place + " must be a volume of this pod, one of pod.volumes or pod.claims, not " +
                   described(lua, -1));
  }
  const VolumeFacts& facts = inputs_of(lua).volumes[*volume];
  if (facts.pv.empty()) {
    raise(lua, place + " is the claim '" + escaped(facts.claim, 64) + "', which is " +
                   escaped(facts.state, 32) + ": it has no attachment; take from pod.volumes");
  }
  return *volume;
}

// A plain list, or one of the pod's own lists.
VolumeIndexes volumes_argument(lua_State* lua, int index) {
  Sandbox& sandbox = Sandbox::of(lua);
  const View* view = to_view(lua, index);
  if (view != nullptr ? !is_list(*view) : lua_type(lua, index) != LUA_TTABLE) {
    raise_argument(lua, index, "a list of volumes");
  }
  const lua_Unsigned count = view != nullptr ? view_length(*view) : lua_rawlen(lua, index);
  const std::size_t most = inputs_of(lua).volumes.size();
  if (count > 2 * most + 16) {
    raise(lua, function_name(lua) + ": argument " + std::to_string(index) + " claims " +
                   std::to_string(count) + " volumes; the pod has " + std::to_string(most));
  }
  VolumeIndexes volumes;
  for (lua_Unsigned i = 1; i <= count; ++i) {
    sandbox.charge(lua, most);
    if (view != nullptr) {
      push_element(lua, *view, static_cast<lua_Integer>(i));
    } else {
      lua_rawgeti(lua, index, static_cast<lua_Integer>(i));
    }
    volumes.insert(volume_on_top(lua, index, i));
    lua_pop(lua, 1);
  }
  if (view == nullptr) {
    lua_pushnil(lua);
    for (lua_Unsigned keys = 0; lua_next(lua, index) != 0; lua_pop(lua, 1)) {
      if (++keys > count) {
        raise(lua, function_name(lua) + ": argument " + std::to_string(index) +
                       " must be a plain list without other keys or holes");
      }
    }
  }
  if (volumes.empty()) {
    raise(lua, function_name(lua) + ": argument " + std::to_string(index) +
                   " is an empty list; without attachments use fence.delete_pod or fence.skip");
  }
  return volumes;
}

// Every volume of the pod that may have an attachment.
VolumeIndexes all_csi_volumes(lua_State* lua) {
  VolumeIndexes volumes;
  const auto& facts = inputs_of(lua).volumes;
  for (std::size_t i = 0; i < facts.size(); ++i) {
    if (!facts[i].pv.empty() && !facts[i].driver.empty()) {
      volumes.insert(i);
    }
  }
  return volumes;
}

void require_volumes(lua_State* lua) {
  if (!Sandbox::of(lua).session.needs.volumes) {
    raise(lua, function_name(lua) + ": " + how_to_declare(Need::Volumes));
  }
}

// ---- options ---------------------------------------------------------------------------------

// Whether the argument is a table of named values rather than a list.
bool is_options(lua_State* lua, int index) {
  if (lua_type(lua, index) != LUA_TTABLE) {
    return false;
  }
  lua_pushnil(lua);
  if (lua_next(lua, index) == 0) {
    return false;
  }
  const bool named = lua_type(lua, -2) == LUA_TSTRING;
  lua_pop(lua, 2);
  return named;
}

SpecTable options_argument(lua_State* lua, int index) {
  if (lua_type(lua, index) != LUA_TTABLE) {
    raise_argument(lua, index, "a table of options");
  }
  return SpecTable{.lua = lua, .index = index, .name = function_name(lua)};
}

void refuse_more_arguments(lua_State* lua, int most) {
  if (lua_gettop(lua) > most) {
    raise(lua, function_name(lua) + ": takes " + std::to_string(most) + " arguments, not " +
                   std::to_string(lua_gettop(lua)));
  }
}

// One of a few words; the first without it.
std::size_t word_option(const SpecTable& table, std::string_view key,
                        std::span<const std::string_view> words) {
  const std::string word = table.text_or(key, 64, std::string(words.front()));
  const auto found = std::find(words.begin(), words.end(), word);
  if (found == words.end()) {
    std::string known;
    for (const std::string_view each : words) {
      known += (known.empty() ? "" : ", ") + std::string(each);
    }
    raise_spec(table.lua, table.place(key),
               "is '" + escaped(word, 64) + "', which is not one of: " + known);
  }
  return static_cast<std::size_t>(found - words.begin());
}

// A list of words, each of which is evidence.
EvidenceSet proof_option(const SpecTable& table) {
  EvidenceSet proof;
  if (!table.has("proof")) {
    return proof;
  }
  const std::string known = evidence_words(all_evidence(), ", ");
  if (table.push("proof") != LUA_TTABLE) {
    raise_spec_type(table.lua, table.place("proof"), "a list of evidence, such as {'attested'}",
                    -1);
  }
  lua_pushnil(table.lua);
  while (lua_next(table.lua, -2) != 0) {
    const std::string word(lua_type(table.lua, -1) == LUA_TSTRING ? text_at(table.lua, -1) : "");
    const auto evidence = find_evidence(word);
    if (!evidence || lua_type(table.lua, -2) != LUA_TNUMBER) {
      raise_spec(table.lua, table.place("proof"),
                 "names '" + escaped(word, 64) + "', which is not one of: " + known);
    }
    proof.insert(*evidence);
    lua_pop(table.lua, 1);
  }
  lua_pop(table.lua, 1);
  if (proof.empty()) {
    raise_spec(
        table.lua, table.place("proof"),
        "is an empty list, so that nothing would ever be enough; name one or more of: " + known);
  }
  return proof;
}

// (reason [, {proof = …}])
EvidenceSet proof_argument(lua_State* lua) {
  refuse_more_arguments(lua, 2);
  if (lua_isnoneornil(lua, 2)) {
    return {};
  }
  const SpecTable table = options_argument(lua, 2);
  table.check_keys(kProofOptionKeys);
  return proof_option(table);
}

double wait_option(const SpecTable& table) {
  const int type = table.push("wait");
  double seconds = kUsualAttachmentWait;
  if (type == LUA_TNUMBER && !(lua_tonumber(table.lua, -1) >= 0)) {
    raise_spec(table.lua, table.place("wait"), "must be a number of seconds from 0 on");
  }
  if (type == LUA_TNUMBER) {
    seconds = lua_tonumber(table.lua, -1);
  } else if (type != LUA_TNIL) {
    seconds = std::chrono::duration<double>(duration_on_top(table.lua, table.place("wait"), false))
                  .count();
  }
  lua_pop(table.lua, 1);
  return clamped_wait(seconds);
}

[[noreturn]] void raise_refused(lua_State* lua, int index, const std::string& place,
                                const char* hook, const char* example) {
  raise(lua, place + ": " + hook + " returned " + described(lua, index) +
                 "; it must return a verdict, such as " + example);
}

Duration seconds_of(double seconds) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

}  // namespace

int fence_skip(lua_State* lua) {
  return push_held(lua, {.kind = Verdict::Kind::Skip});
}

int fence_forbid(lua_State* lua) {
  return push_held(lua, {.kind = Verdict::Kind::Forbid});
}

int fence_delete_pod(lua_State* lua) {
  refuse_more_arguments(lua, 2);
  Held held{.kind = Verdict::Kind::DeletePod};
  if (!lua_isnoneornil(lua, 2)) {
    const SpecTable table = options_argument(lua, 2);
    table.check_keys(kDeleteOptionKeys);
    held.fail = table.boolean_or("fail", false);
    held.proof = proof_option(table);
  }
  return push_held(lua, held);
}

int fence_wait(lua_State* lua) {
  const double seconds = lua_isnoneornil(lua, 2) ? kUsualWait : seconds_argument(lua, 2);
  return push_held(lua, {.kind = Verdict::Kind::Wait, .wait_seconds = seconds});
}

// (reason [, volumes] [, options])
int fence_delete_pod_and_attachments(lua_State* lua) {
  require_volumes(lua);
  refuse_more_arguments(lua, 3);
  Held held{.kind = Verdict::Kind::DeletePodAndAttachments};
  const int options = is_options(lua, 2) ? 2 : 3;
  if (options == 2 && !lua_isnoneornil(lua, 3)) {
    raise_argument(lua, 2, "a list of volumes");
  }
  if (!lua_isnoneornil(lua, options)) {
    const SpecTable table = options_argument(lua, options);
    table.check_keys(kReleaseOptionKeys);
    held.release = table.boolean_or("release", false);
    held.fail = table.boolean_or("fail", false);
    held.proof = proof_option(table);
  }
  const bool all = options == 2 || lua_isnoneornil(lua, 2);
  return push_held(lua, held, all ? all_csi_volumes(lua) : volumes_argument(lua, 2));
}

// (reason, volumes [, options])
int fence_delete_attachments(lua_State* lua) {
  constexpr std::array<std::string_view, 1> kOrders = {"attachments-first"};
  constexpr std::array<std::string_view, 2> kEndings = {"hold", "delete"};
  require_volumes(lua);
  refuse_more_arguments(lua, 3);
  Held held{.kind = Verdict::Kind::DeleteAttachments, .wait_seconds = kUsualAttachmentWait};
  if (!lua_isnoneornil(lua, 3)) {
    const SpecTable table = options_argument(lua, 3);
    table.check_keys(kAttachmentOptionKeys);
    (void)word_option(table, "order", kOrders);
    held.wait_seconds = wait_option(table);
    held.on_timeout = word_option(table, "on_timeout", kEndings) == 0 ? Verdict::OnTimeout::Hold
                                                                      : Verdict::OnTimeout::Delete;
    held.proof = proof_option(table);
  }
  return push_held(lua, held, volumes_argument(lua, 2));
}

int fence_proceed(lua_State* lua) {
  return push_held(lua, {.of_node = true, .node_kind = NodeVerdict::Kind::Proceed});
}

// About a pod or a node, as where it is made.
int fence_hold(lua_State* lua) {
  if (Sandbox::of(lua).session.hook == Hook::Pod) {
    const double again = lua_isnoneornil(lua, 2) ? kUsualHold : seconds_argument(lua, 2);
    return push_held(lua, {.kind = Verdict::Kind::Hold, .wait_seconds = again});
  }
  const double seconds = seconds_argument(lua, 2);
  return push_held(
      lua, {.of_node = true, .node_kind = NodeVerdict::Kind::Hold, .wait_seconds = seconds});
}

int fence_taint_out_of_service(lua_State* lua) {
  return push_held(lua, {.of_node = true,
                         .node_kind = NodeVerdict::Kind::TaintOutOfService,
                         .proof = proof_argument(lua)});
}

Verdict take_verdict(lua_State* lua, int index, const std::string& place) {
  const Held* held = to_held(lua, index);
  if (held == nullptr || held->of_node) {
    raise_refused(lua, index, place, "pod", "fence.skip(reason)");
  }
  trace_returned(lua, held);
  Verdict verdict{.kind = held->kind,
                  .reason = {held->reason.data(), held->reason_size},
                  .wait = seconds_of(held->wait_seconds),
                  .release = held->release,
                  .fail = held->fail,
                  .on_timeout = held->on_timeout,
                  .proof = held->proof};
  for (const std::size_t volume : volumes_of(*held)) {
    verdict.volumes.push_back(inputs_of(lua).volumes[volume]);
  }
  return verdict;
}

NodeVerdict take_node_verdict(lua_State* lua, int index, const std::string& place) {
  const Held* held = to_held(lua, index);
  if (held == nullptr || !held->of_node) {
    raise_refused(lua, index, place, "node", "fence.proceed(reason)");
  }
  trace_returned(lua, held);
  return NodeVerdict{.kind = held->node_kind,
                     .reason = {held->reason.data(), held->reason_size},
                     .wait = seconds_of(held->wait_seconds),
                     .proof = held->proof};
}

std::string_view to_string(Verdict::Kind kind) {
  switch (kind) {
    case Verdict::Kind::Skip:
      return "skip";
    case Verdict::Kind::Forbid:
      return "forbid";
    case Verdict::Kind::Hold:
      return "hold";
    case Verdict::Kind::Wait:
      return "wait";
    case Verdict::Kind::DeletePod:
      return "delete_pod";
    case Verdict::Kind::DeletePodAndAttachments:
      return "delete_pod_and_attachments";
    case Verdict::Kind::DeleteAttachments:
      return "delete_attachments";
  }
  return "skip";
}

std::string_view to_string(NodeVerdict::Kind kind) {
  switch (kind) {
    case NodeVerdict::Kind::Proceed:
      return "proceed";
    case NodeVerdict::Kind::Hold:
      return "hold";
    case NodeVerdict::Kind::TaintOutOfService:
      return "taint_out_of_service";
  }
  return "hold";
}

std::string_view to_string(NodeHealth health) {
  switch (health) {
    case NodeHealth::Healthy:
      return "healthy";
    case NodeHealth::Failed:
      return "failed";
    case NodeHealth::Unknown:
      return "unknown";
  }
  return "unknown";
}

}  // namespace moonfence::policy
