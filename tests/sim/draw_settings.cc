#include "sim/draw.h"
#include "sim/drawing.h"
#include "sim/net/chance.h"

namespace moonfence::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

}  // namespace

void draw_release(Drawing& drawing, port::Random& random) {
  if (happens(random, 0.5)) {
    drawing.plan.settings["release"] = "on";
  }
}

void draw_verification(Drawing& drawing, port::Random& random) {
  drawing.plan.settings["replacement-wait"] = happens(random, 0.2)   ? "0s"
                                              : happens(random, 0.5) ? "10s"
                                                                     : "30s";
}

void draw_edits(Drawing& drawing, port::Random& random) {
  while (happens(random, 0.25)) {
    drawing.add(drawing.moment(random), Verb::EditPolicies, "", draw_edit(random));
  }
  if (happens(random, 0.05)) {
    const Duration at = drawing.moment(random);
    drawing.add(at, Verb::DeletePolicies, "");
  }
}

// In a third of the worlds the brake is as it comes; in the others limits are off, or narrow. The
// worlds are small and many of their nodes fail: with the brake on little would be deleted.
void draw_brake(Drawing& drawing, port::Random& random) {
  if (happens(random, 0.34)) {
    return;
  }
  if (happens(random, 0.8)) {
    drawing.plan.settings["max-down"] = happens(random, 0.7) ? "off" : "80%";
  }
  if (happens(random, 0.3)) {
    drawing.plan.settings["max-at-once"] = std::to_string(number(random, 1, 3));
  }
  if (happens(random, 0.5)) {
    drawing.plan.settings["zone-max-down"] = "off";
  }
  if (happens(random, 0.5)) {
    drawing.plan.settings["cool-down"] =
        text_of(drawn_between(random, milliseconds(100), seconds(15)));
  }
}

void draw_quarantine(Drawing& drawing, port::Random& random) {
  if (happens(random, 0.5)) {
    drawing.plan.settings["quarantine"] = happens(random, 0.6) ? "always" : "missing";
  }
}

}  // namespace moonfence::sim
