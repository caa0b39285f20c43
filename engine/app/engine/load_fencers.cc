#include "app/engine/load_fencers.h"

#include <algorithm>
#include <utility>

#include "policy/bundle/builtin.h"

namespace moonfence::app {
namespace {

constexpr std::size_t kLongestSource = 1U << 20U;

Result<std::string> source_of(const FencerSetting& fencer, port::Files& files) {
  if (!fencer.file.empty()) {
    return files.read(fencer.file, kLongestSource);
  }
  std::string known;
  for (const policy::BuiltinPolicy& builtin : policy::builtin_fencers()) {
    if (builtin.name == fencer.name) {
      return std::string(builtin.source);
    }
    known += (known.empty() ? "" : ", ") + std::string(builtin.name);
  }
  return failure(Error::Kind::NotFound, "no fencer of that name comes with the engine",
                 "known are " + known + "; for one of your own give its file");
}

Result<fence::BoundFencer> load(const FencerSetting& fencer, port::Files& files,
                                port::CpuClock& clock) {
  auto source = source_of(fencer, files);
  if (!source) {
    return failure(std::move(source.error()));
  }
  auto loaded = policy::Policy::load(
      *std::move(source), fencer.file.empty() ? fencer.name + "/fencer.lua" : fencer.file, clock);
  if (!loaded) {
    return failure(std::move(loaded.error()));
  }
  if (!loaded->is_fencer() || loaded->name() != fencer.name) {
    return failure(Error::Kind::Invalid,
                   loaded->is_fencer() ? "the file declares fencer " + loaded->name()
                                       : "the file declares a policy",
                   "its name and `return fencer {…}` must fit");
  }
  if (fencer.switch_off && loaded->act() != policy::FencerAct::SwitchOff) {
    return failure(Error::Kind::Invalid, "it cannot switch machines off",
                   "its file has no function `off`: remove switchOff: true");
  }
  if (fencer.isolate && loaded->act() != policy::FencerAct::Isolate) {
    return failure(Error::Kind::Invalid, "it cannot isolate machines",
                   "its file has no function `isolate`: remove isolate: true");
  }
  auto settled = loaded->with_settings(fencer.settings);
  if (!settled) {
    return failure(std::move(settled.error()));
  }
  auto nodes = policy::LabelSelector::parse(fencer.nodes);
  if (!nodes) {
    return failure(std::move(nodes.error()));
  }
  return fence::BoundFencer{.fencer = std::make_shared<const policy::Policy>(*std::move(settled)),
                            .nodes = *std::move(nodes),
                            .may_act = fencer.switch_off || fencer.isolate};
}

}  // namespace

Result<std::vector<fence::BoundFencer>> load_fencers(const Settings& settings, port::Files& files,
                                                     port::CpuClock& clock) {
  std::vector<fence::BoundFencer> bound;
  for (const FencerSetting& each : settings.fencers) {
    auto fencer = load(each, files, clock);
    if (!fencer) {
      return failure(Error(std::move(fencer.error())).within("fencer " + each.name));
    }
    fencer->may_write = settings.allowed_writes;
    bound.push_back(*std::move(fencer));
  }
  return bound;
}

}  // namespace moonfence::app
