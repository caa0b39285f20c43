#include "app/machines/machine_watch.h"

#include <utility>

#include "base/text.h"

namespace moonfence::app {

MachineWatch::MachineWatch(loop::Loop& loop, port::Http& http, port::Random& random, port::Log& log,
                           const SigningKey::Secret& secret, port::Links* links)
    : loop_(loop),
      log_(log),
      detection_random_(random.fork("detection")),
      detection_(links == nullptr
                     ? nullptr
                     : std::make_unique<cluster::Detection>(
                           loop, *links, *detection_random_,
                           [this](const cluster::Detection::News& news) {
                             log_.info(news.is_silent ? "machine_silent" : "machine_answers",
                                       {{"node", news.node.text()},
                                        {"quiet", format_duration(news.quiet)}});
                           })),
      testimony_(secret),
      witness_random_(random.fork("witness")),
      witnesses_(detection_ == nullptr ? nullptr
                                       : std::make_unique<cluster::Witnesses>(
                                             loop, http, *witness_random_, log, *detection_)) {
  if (detection_ != nullptr) {
    detection_->tell_changes([this](const NodeName& node, const cluster::KernelWatch* watch) {
      testimony_.tell(node, watch);
      if (watch == nullptr) {
        history_.forget(node);
      }
    });
  }
}

void MachineWatch::follow_replicas(kube::Caller& caller, const Namespace& space, std::string own) {
  if (witnesses_ != nullptr) {
    witness_watch_.emplace(WitnessWatch::Surroundings{loop_, caller, *witness_random_, log_}, space,
                           std::move(own), *witnesses_);
  }
}

void MachineWatch::start() {
  if (witness_watch_) {
    witness_watch_->start();
  }
}

void MachineWatch::tell(Metrics& metrics, Health& health, WallTime now) {
  if (detection_ == nullptr) {
    return;
  }
  witnesses_->look();
  testimony_.tell_alive(loop_.now(), detection_->is_well());
  detection_->each([this, now](const NodeName& node, std::optional<Duration> quiet) {
    history_.note(node, witnesses_->kernel_of(node), quiet, now);
  });
  const cluster::Detection::Counts counts = detection_->counts();
  metrics.set_detection(counts, detection_->silences());
  metrics.set_witnesses(witnesses_->counts());
  health.note("nodes-watch", counts.not_observable == 0
                                 ? ""
                                 : "of " + std::to_string(counts.not_observable) + " of " +
                                       std::to_string(counts.total()) +
                                       " nodes nobody can tell whether their machine answers");
}

}  // namespace moonfence::app
