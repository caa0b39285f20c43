#include "app/rehearsal/rehearsal.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <utility>

#include "app/rehearsal/hasty_poller.h"
#include "app/telling/logging.h"
#include "os/net/curl_http.h"
#include "os/net/curl_poller.h"
#include "os/system/clocks.h"
#include "os/system/entropy.h"
#include "os/system/processes.h"
#include "os/system/system_files.h"

namespace moonfence::app {
namespace {

using nlohmann::json;

// By the clock on the wall; a rehearsal takes less than a second.
constexpr Duration kStartLimit = std::chrono::seconds(15);
constexpr Duration kLimit = std::chrono::seconds(30);
// How far time runs ahead: while the engine starts, so that failed reads are not repeated without
// a pause, and for hold-downs.
constexpr Duration kStartHaste = std::chrono::seconds(2);
constexpr Duration kHaste = std::chrono::minutes(10);

// Warnings are shown beside the plan; the rest of the log is nobody's business.
class Notes final : public port::Log {
 public:
  void write(Level level, std::string_view event,
             const std::vector<port::LogField>& fields) override {
    if (level == Level::Warning || level == Level::Error) {
      const std::string line = log_line(event, fields);
      if (std::find(lines.begin(), lines.end(), line) == lines.end()) {
        lines.push_back(line);
      }
    }
  }
  std::vector<std::string> lines;
};

class Stage {
 public:
  Stage(Assignment assignment, const RehearsalGround& ground)
      : real_poller_(ground.poller),
        wall_clock_(ground.wall_clock),
        poller_(real_poller_, [this] { return in_haste(); }),
        loop_(poller_),
        http_(ground.http, loop_, assignment.config.connection.server),
        processes_(ground.processes(loop_)),
        engine_(
            std::move(assignment),
            {loop_, http_, ground.files, *processes_, wall_clock_, ground.cpu_clock, ground.random,
             notes_, [this](std::string_view line) { return note(line); }, /*status_board=*/nullptr,
             [this](const PodRef& pod, const policy::Binding& by, const policy::Trace& trace) {
               note_evaluation(pod, by, trace);
             }}) {}

  Result<Rehearsed> play(const std::vector<NodeName>& nodes, bool although_up) {
    engine_.start();
    if (auto started = await_start(); !started) {
      return failure(std::move(started.error()));
    }
    const std::size_t before = http_.writes().size();
    const Duration ahead_before = poller_.ahead();
    for (const NodeName& name : nodes) {
      Engine::Supposed supposed = engine_.suppose_fallen(name, /*although_up=*/false);
      const bool forced = supposed == Engine::Supposed::Up && although_up;
      if (forced) {  // what is down is read as it is
        http_.suppose_down(name, wall_clock_.now());
        supposed = engine_.suppose_fallen(name, /*although_up=*/true);
      }
      played_.nodes.push_back({.name = name, .supposed = supposed, .although_up = forced});
    }
    told_ = true;
    const Moment end = real_poller_.now() + kLimit;
    do {
      loop_.turn();
    } while (!is_over() && real_poller_.now() < end);
    played_.complete = is_over();
    played_.writes.assign(http_.writes().begin() + static_cast<std::ptrdiff_t>(before),
                          http_.writes().end());
    played_.ahead = poller_.ahead() - ahead_before;
    played_.notes = notes_.lines;
    played_.policies = engine_.policies();
    return std::move(played_);
  }

 private:
  Result<void> await_start() {
    const Moment end = real_poller_.now() + kStartLimit;
    // What health sources say is known before it is asked which nodes are up. One that is slow
    // keeps nobody from a plan.
    while (!engine_.health().ready(false).ok || !is_quiet()) {
      if (real_poller_.now() >= end) {
        return engine_.health().ready(false).ok
                   ? Result<void>()
                   : cannot_read("the cluster could not be read within 15 s:");
      }
      if (is_refused()) {
        return cannot_read("the cluster may not be read:");
      }
      loop_.turn();
    }
    return {};
  }

  // The attempts that cost no time were made, and what the API server refuses it will go on to
  // refuse.
  [[nodiscard]] bool is_refused() {
    return !http_.refusal().empty() && poller_.ahead() >= kStartHaste && is_quiet() &&
           !engine_.health().ready(false).ok;
  }

  [[nodiscard]] Result<void> cannot_read(std::string what) {
    for (const std::string& line : notes_.lines) {
      what += "\n  " + line;
    }
    if (notes_.lines.empty()) {
      what += "\n" + engine_.health().ready(true).text;
    }
    return failure(Error::Kind::Retryable, std::move(what),
                   "check --kubeconfig and --context, and that the account may read what "
                   "docs/reference.md lists under Commands");
  }

  Result<void> note(std::string_view line) {
    json record = json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (record.is_object()) {
      const std::string node = record.value("node", "");
      const bool holds = record.value("kind", "") == "incident_held" &&
                         record.value("reason", "") == "holding_down" && !record.contains("policy");
      holding_[node] = holds;
      played_.records.push_back(std::move(record));
    }
    return {};
  }

  void note_evaluation(const PodRef& pod, const policy::Binding& by, const policy::Trace& trace) {
    played_.evaluated.push_back({.pod = pod,
                                 .policy = by.name,
                                 .digest = by.digest,
                                 .mode = by.mode,
                                 .reads = trace.reads});
  }

  // Somebody waits for nothing but time, which is a hold-down's whole purpose.
  [[nodiscard]] bool waits_for_time() const {
    return poller_.ahead() < kHaste && std::any_of(holding_.begin(), holding_.end(),
                                                   [](const auto& entry) { return entry.second; });
  }
  [[nodiscard]] bool in_haste() const {
    if (http_.outstanding() > 0) {
      return false;
    }
    return told_ ? waits_for_time() : poller_.ahead() < kStartHaste;
  }
  [[nodiscard]] bool is_quiet() const {
    const auto due = loop_.next_due();
    const bool idle = !due || *due > loop_.now() + std::chrono::milliseconds(1);
    return idle && http_.outstanding() == 0;
  }
  [[nodiscard]] bool is_over() const { return is_quiet() && !waits_for_time(); }

  // Built from top to bottom, destroyed in reverse: whatever is used stands above its users.
  Rehearsed played_;
  Notes notes_;
  loop::Poller& real_poller_;
  port::WallClock& wall_clock_;
  HastyPoller poller_;
  loop::Loop loop_;
  RehearsalHttp http_;
  std::unique_ptr<port::Processes> processes_;
  std::map<std::string, bool> holding_;  // by node: its newest record says that it holds for time
  bool told_ = false;
  Engine engine_;  // tells the two above until its end
};

}  // namespace

Result<Rehearsed> rehearse(Assignment assignment, const std::vector<NodeName>& nodes,
                           bool although_up, const RehearsalGround& ground) {
  assignment.on_demand = true;
  assignment.leader_elect = false;
  const NodeName own(assignment.node_name);
  auto rehearsed = Stage(assignment, ground).play(nodes, although_up);
  const bool moves = rehearsed && std::any_of(rehearsed->nodes.begin(), rehearsed->nodes.end(),
                                              [&own](const Rehearsed::Node& node) {
                                                return node.although_up && node.name == own;
                                              });
  if (!moves) {
    return rehearsed;
  }
  // It leaves the node on which it runs alone. If that machine died, another replica would act.
  assignment.node_name.clear();
  rehearsed = Stage(std::move(assignment), ground).play(nodes, although_up);
  if (rehearsed) {
    rehearsed->notes.insert(
        rehearsed->notes.begin(),
        "the acting replica runs on node " + own.text() + ": another one is supposed to act");
  }
  return rehearsed;
}

Result<Rehearsed> rehearse(Assignment assignment, const std::vector<NodeName>& nodes,
                           bool although_up) {
  os::SystemWallClock wall_clock;
  os::ThreadCpuClock cpu_clock;
  os::SystemFiles files;
  os::SystemRandom random;
  os::CurlPoller poller;
  os::CurlHttp http(poller);
  return rehearse(std::move(assignment), nodes, although_up,
                  {.poller = poller,
                   .http = http,
                   .files = files,
                   .wall_clock = wall_clock,
                   .cpu_clock = cpu_clock,
                   .random = random,
                   .processes = [&poller](loop::Loop& loop) {
                     return std::make_unique<os::ChildProcesses>(loop, poller);
                   }});
}

}  // namespace moonfence::app
