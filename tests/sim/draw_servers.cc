#include <algorithm>
#include <array>
#include <span>

#include "sim/drawing.h"
#include "sim/net/chance.h"
#include "sim/server/hidden_objects.h"
#include "sim/server/write_refusals.h"

namespace moonfence::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

}  // namespace

void draw_wire(Drawing& drawing, port::Random& random) {
  Faults& faults = drawing.plan.faults;
  faults.piece_limit = happens(random, 0.3) ? number(random, 1, 200) : 16U << 10U;
  if (drawing.cruelty == 0) {
    return;
  }
  const double most = drawing.cruelty == 1 ? 0.02 : 0.2;
  // Each fault is switched on or off for the whole run first: not every cruel run is cruel alike.
  const auto share = [&random, most](double scale) {
    return happens(random, 0.4) ? random.unit() * most * scale : 0.0;
  };
  faults.refused = share(1);
  faults.lost_request = share(1);
  faults.lost_reply = share(1);
  faults.truncated = share(1);
  faults.slow = share(1);
  faults.black_hole = share(0.5);
  faults.too_many = share(1);
  faults.internal = share(1);
  faults.internal_after_commit = share(1);
  faults.watch_duplicate = share(2);
  faults.watch_cut = share(1);
  if (happens(random, 0.3)) {
    faults.latency = {milliseconds(1), drawn_between(random, milliseconds(5), milliseconds(400))};
  }
  if (happens(random, 0.3)) {
    faults.piece_gap = {Duration::zero(), milliseconds(20)};
  }
  if (happens(random, 0.3)) {
    faults.cache_lag = {Duration::zero(), drawn_between(random, milliseconds(10), seconds(3))};
  }
  if (happens(random, 0.5)) {
    faults.skew = {Duration::zero(), drawn_between(random, seconds(1), seconds(600))};
  }
  if (happens(random, 0.3)) {
    faults.informer_lag = {milliseconds(1), drawn_between(random, milliseconds(20), seconds(2))};
  }
}

void draw_servers(Drawing& drawing, port::Random& random) {
  const double chance = drawing.cruelty == 0 ? 0.05 : 0.3;
  while (happens(random, chance)) {
    const Duration at = drawing.moment(random);
    const std::string length = text_of(drawn_between(random, milliseconds(100), seconds(20)));
    switch (number(random, 0, 2)) {
      case 0:
        drawing.add(at, Verb::RestartServer,
                    "api-" + std::to_string(number(
                                 random, 0, static_cast<std::uint64_t>(drawing.plan.servers) - 1)),
                    {{"for", length}});
        break;
      case 1:
        drawing.add(at, Verb::Compact, "");
        break;
      default:
        drawing.add(at, Verb::Outage, "", {{"for", length}});
        break;
    }
  }
}

// For minutes, until all is calm at the latest. No cache entry expires in time to help.
void draw_refusals(Drawing& drawing, port::Random& random) {
  const auto one_of = [&random](std::span<const std::string_view> words) {
    return std::string(words[number(random, 0, words.size() - 1)]);
  };
  if (!happens(random, 0.25)) {
    return;
  }
  drawing.plan.settings["cache-expiry"] = "1h";
  do {
    const Duration at = drawn_between(random, seconds(1), drawing.noise / 2);
    const std::string what = one_of(refusable_writes());
    const std::string how = one_of(kinds_of_refusal());
    const Duration length = drawn_between(random, seconds(20), seconds(120));
    drawing.add(at, Verb::RefuseWrites, what,
                {{"how", how}, {"for", text_of(std::min(length, drawing.noise - at))}});
  } while (happens(random, 0.3));
}

// A proxy in between that answers 404 to a read of what is there: once or twice, or for a while.
void draw_hidden_objects(Drawing& drawing, port::Random& random) {
  if (!happens(random, 0.2)) {
    return;
  }
  do {
    const Duration at = drawn_between(random, seconds(1), drawing.noise / 2);
    const auto words = hidable_objects();
    const std::string what(words[number(random, 0, words.size() - 1)]);
    if (happens(random, 0.5)) {
      drawing.add(
          at, Verb::HideObjects, what,
          {{"for", text_of(drawing.noise - at)}, {"times", std::to_string(number(random, 1, 3))}});
    } else {
      const Duration length = drawn_between(random, seconds(1), seconds(90));
      drawing.add(at, Verb::HideObjects, what,
                  {{"for", text_of(std::min(length, drawing.noise - at))}});
    }
  } while (happens(random, 0.4));
}

// Watches that stand still, and what they do not tell: that somebody has switched everything off.
void draw_hushes(Drawing& drawing, port::Random& random) {
  if (!happens(random, 0.2)) {
    return;
  }
  static constexpr std::array<std::string_view, 4> kWhat = {"nodes", "pods", "policies", "all"};
  const Duration at = drawn_between(random, seconds(1), drawing.noise / 2);
  const Duration length = drawn_between(random, seconds(20), seconds(120));
  drawing.add(at, Verb::HushWatches, std::string(kWhat[number(random, 0, kWhat.size() - 1)]),
              {{"for", text_of(std::min(length, drawing.noise - at))}});
  if (happens(random, 0.3)) {
    drawing.add(at + drawn_between(random, seconds(1), seconds(20)), Verb::EditPolicies, "",
                {{"mode", "off"}});
  }
}

// Slow and alive: disks, webhooks. Within what the engine waits for, and now and then beyond.
void draw_slowness(Drawing& drawing, port::Random& random) {
  if (!happens(random, 0.2)) {
    return;
  }
  const auto slow = [&](const char* what, Duration by) {
    const Duration at = drawn_between(random, seconds(1), drawing.noise / 2);
    const Duration length = drawn_between(random, seconds(20), seconds(90));
    drawing.add(at, Verb::SlowServers, what,
                {{"by", text_of(by)}, {"for", text_of(std::min(length, drawing.noise - at))}});
  };
  switch (number(random, 0, 3)) {
    case 0:
      slow("all", drawn_between(random, milliseconds(300), milliseconds(2500)));
      break;
    case 1:
      slow("deletions", drawn_between(random, seconds(2), seconds(30)));
      break;
    case 2:
      slow("leases", drawn_between(random, seconds(2), seconds(30)));
      break;
    default:
      slow("reads", drawn_between(random, milliseconds(500), seconds(8)));
      break;
  }
}

void draw_storage(Drawing& drawing, port::Random& random) {
  if (happens(random, 0.2)) {
    drawing.plan.timings.detach = milliseconds(number(random, 10, 30'000));
  }
  while (happens(random, drawing.cruelty == 0 ? 0.1 : 0.3)) {
    const Duration at = drawing.moment(random);
    const std::string length = text_of(drawn_between(random, milliseconds(500), seconds(90)));
    switch (number(random, 0, 2)) {
      case 0:
        drawing.add(at, Verb::StopAttacher, "", {{"for", length}});
        break;
      case 1:
        drawing.add(at, Verb::RefuseAttach, drawing.a_node(random), {{"for", length}});
        break;
      default:
        drawing.add(at, Verb::RefuseDetach, drawing.a_node(random), {{"for", length}});
        break;
    }
  }
}

// An etcd that is restored from a snapshot.
void draw_rewind(Drawing& drawing, port::Random& random) {
  if (!happens(random, 0.12)) {
    return;
  }
  const Duration saved = drawn_between(random, Duration::zero(), drawing.noise - seconds(15));
  drawing.add(saved, Verb::SnapshotStore, "");
  drawing.add(drawn_between(random, saved + seconds(1), drawing.noise - seconds(10)),
              Verb::RestoreStore, "",
              {{"for", text_of(drawn_between(random, milliseconds(100), seconds(10)))}});
}

}  // namespace moonfence::sim
