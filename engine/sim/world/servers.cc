#include "sim/world/servers.h"

#include <charconv>
#include <optional>
#include <utility>

namespace moonfence::sim {
namespace {

using namespace std::chrono_literals;

Duration time_away(const Step& step) {
  const auto found = step.arguments.find("for");
  return found == step.arguments.end() ? Duration(5s) : parse_duration(found->second).value_or(5s);
}

// Nothing: as often as it is asked.
std::optional<int> times_of(const Step& step) {
  const auto found = step.arguments.find("times");
  int times = 0;
  if (found == step.arguments.end()) {
    return std::nullopt;
  }
  const std::string& text = found->second;
  std::from_chars(text.data(), text.data() + text.size(), times);
  return times;
}

}  // namespace

std::string server_name(std::size_t index) {
  return "api-" + std::to_string(index);
}

Servers::Servers(const Ground& ground, const Plan& plan, const Kubelet& kubelet) : ground_(ground) {
  const auto ages = ground_.random.fork("servers");
  const auto count = static_cast<std::size_t>(plan.servers);
  servers_.reserve(count);
  for (std::size_t index = 0; index < count; ++index) {
    Entry entry;
    entry.random = ground_.random.fork(server_name(index));
    entry.server = std::make_unique<ApiServer>(
        ground_.loop, ground_.store, *entry.random, ground_.now,
        ServerRules{.kubernetes = ground_.kubernetes, .authorize = {}, .kubelet = kubelet});
    entry.server->set_mood(
        {.cache_lag = between(*ages, plan.faults.cache_lag.from, plan.faults.cache_lag.to),
         .down = false,
         .too_many = plan.faults.too_many,
         .internal = plan.faults.internal,
         .internal_after_commit = plan.faults.internal_after_commit});
    servers_.push_back(std::move(entry));
  }
}

bool Servers::perform(const Step& step) {
  bool done = false;
  for (std::size_t index = 0; index < servers_.size(); ++index) {
    ApiServer& server = *servers_[index].server;
    if (step.verb == Verb::Outage ||
        (step.verb == Verb::RestartServer && step.target == server_name(index))) {
      take_down(index, time_away(step));
    } else if (step.verb == Verb::Compact) {
      server.compact();
    } else if (step.verb == Verb::RefuseWrites) {
      const auto how = step.arguments.find("how");
      server.refuse_writes(step.target, how == step.arguments.end() ? "webhook" : how->second,
                           ground_.loop.now() + time_away(step));
    } else if (step.verb == Verb::HideObjects) {
      server.hide_objects(step.target, ground_.loop.now() + time_away(step), times_of(step));
    } else if (step.verb == Verb::HushWatches) {
      server.hush_watches(step.target, ground_.loop.now() + time_away(step));
    } else if (step.verb == Verb::Calm) {
      server.end_refusals();
      server.set_mood({.cache_lag = {}, .down = server.mood().down});
    } else {
      continue;
    }
    done = true;
  }
  return done;
}

void Servers::restore(const StoreSnapshot& snapshot, Duration away) {
  for (std::size_t index = 0; index < servers_.size(); ++index) {
    take_down(index, away);
  }
  ground_.store.restore(snapshot);
  for (const Entry& entry : servers_) {
    entry.server->begin_anew();
  }
}

void Servers::take_down(std::size_t index, Duration how_long) {
  Entry& entry = servers_[index];
  ServerMood mood = entry.server->mood();
  mood.down = true;
  entry.server->set_mood(mood);
  ground_.tell(Happening::Kind::Fault, server_name(index), "away for " + format_duration(how_long));
  entry.away = ground_.loop.after(how_long, [this, index] { restart(index); });
}

void Servers::restart(std::size_t index) {
  ApiServer& server = *servers_[index].server;
  server.restart();
  ServerMood mood = server.mood();
  mood.down = false;
  server.set_mood(mood);
  ground_.tell(Happening::Kind::Fault, server_name(index), "back");
}

}  // namespace moonfence::sim
