// `moonfence fencer check`: asks each node's fencers whether its machine has power. It only asks.
// `moonfence fencer rehearse`: has the machine of a drained node switched off, for real.

#include <array>
#include <cstdio>
#include <exception>
#include <optional>
#include <set>
#include <utility>

#include "app/cluster_commands/client_command.h"
#include "app/engine/load_fencers.h"
#include "app/engine/preparation.h"
#include "app/fencer_check/fencer_asking.h"
#include "app/fencer_rehearsal/rehearsal_facts.h"
#include "app/fencer_rehearsal/rehearsal_news.h"
#include "app/fencer_rehearsal/switching_off.h"
#include "base/text.h"
#include "kube/objects/decode.h"
#include "os/system/clocks.h"
#include "os/tools/prompt.h"

namespace moonfence::app {

using nlohmann::json;

namespace {

std::string in_the_pod(const ClientOptions& options, const ClientGround& ground) {
  const bool rehearses = options.verb == ClientOptions::Verb::FencerRehearse;
  return "run it where the engine runs: kubectl -n " + ground.engine_namespace + " exec " +
         (rehearses
              ? "-it deployment/moonfence -- moonfence fencer rehearse " + options.names.front()
              : "deployment/moonfence -- moonfence fencer check");
}

// What the engine would take if it started now.
tl::expected<Settings, ClientOutput> settings_for(const ClientOptions& options,
                                                  ClientGround& ground) {
  if (!options.config.empty()) {
    auto settings = load_settings(ground.files, options.config);
    return settings ? tl::expected<Settings, ClientOutput>(*std::move(settings))
                    : tl::unexpected(refused(ClientExit::Config, settings.error()));
  }
  auto deployed = deployed_settings(ground);
  if (!deployed) {
    return tl::unexpected(std::move(deployed.error()));
  }
  if (deployed->refusal) {
    return tl::unexpected(refused(ClientExit::Failed, *deployed->refusal));
  }
  if (!deployed->missing.empty()) {
    return tl::unexpected(
        refused(ClientExit::Config,
                Error{.kind = Error::Kind::NotFound,
                      .text = "nobody knows which fencers there are: " + deployed->missing,
                      .hint = "name its namespace by -n, or its file by --config"}));
  }
  return std::move(deployed->settings);
}

tl::expected<std::vector<fence::BoundFencer>, ClientOutput> fencers_for(
    const ClientOptions& options, ClientGround& ground, const Settings& settings,
    port::CpuClock& clock) {
  auto fencers = load_fencers(settings, ground.files, clock);
  if (!fencers) {
    Error error = fencers.error();
    error.hint = error.kind == Error::Kind::NotFound || error.hint.empty()
                     ? in_the_pod(options, ground)
                     : error.hint;
    return tl::unexpected(refused(ClientExit::Config, error));
  }
  return *std::move(fencers);
}

// Credentials are mounted where the engine runs, and mostly not where somebody types this.
std::string note_on_files(const ClientOptions& options, ClientGround& ground,
                          const cluster::EndpointTable& endpoints) {
  constexpr std::size_t kNamed = 3;
  std::set<std::string> missing;
  for (const auto& [name, rules] : endpoints) {
    for (const std::string& path : {rules.ca_file, rules.certificate_file, rules.key_file,
                                    rules.username_file, rules.password_file, rules.token_file}) {
      if (!path.empty() && !ground.files.read(path)) {
        missing.insert(escaped(path, 256));
      }
    }
  }
  if (missing.empty()) {
    return {};
  }
  std::string names;
  std::size_t left = missing.size();
  for (const std::string& path : missing) {
    if (missing.size() - left == kNamed) {
      break;
    }
    names += (names.empty() ? "" : ", ") + path;
    --left;
  }
  return "note: " +
         (options.config.empty() ? "ConfigMap " + ground.engine_namespace + "/moonfence-config"
                                 : options.config) +
         " names files that cannot be read here: " + names +
         (left > 0 ? " and " + std::to_string(left) + " more" : "") + "; " +
         in_the_pod(options, ground) + "\n";
}

// --- check

GetJson reading(ClientGround& ground) {
  return [&ground](const std::string& path, const kube::Query& query) {
    return ground.client.get(path, query);
  };
}

// Asks about nodes as they come, page by page: their objects are large, what is said of them is
// not.
class Checking {
 public:
  explicit Checking(const FencerAsking& asking) : asking_(asking) {}

  Result<void> take(const json& object) {
    auto node = kube::decode_node(object, /*keep_raw=*/true);
    if (!node) {
      return failure(std::move(node.error()));
    }
    take(*std::move(node));
    return {};
  }
  // Once, should a list begin anew.
  void take(kube::Node node) {
    if (taken_.insert(node.name.text()).second) {
      page_.push_back(std::move(node));
      if (page_.size() == kPageItems) {
        ask();
      }
    }
  }
  void ask() {
    for (FencerReport::Node& told : ask_fencers(asking_, page_)) {
      told_.push_back(std::move(told));
    }
    page_.clear();
  }
  [[nodiscard]] std::size_t taken() const { return taken_.size(); }
  [[nodiscard]] std::vector<FencerReport::Node> told() { return std::move(told_); }

 private:
  const FencerAsking& asking_;
  std::set<std::string> taken_;
  std::vector<kube::Node> page_;
  std::vector<FencerReport::Node> told_;
};

// Asking takes its time.
Result<void> check_all(const GetJson& get, Checking& checking) {
  return each_item_slowly(
      get, "/api/v1/nodes", "nodes",
      [&checking](const json& object) { return checking.take(object); },
      [&checking] { return checking.taken(); });
}

tl::expected<void, ClientOutput> check_named(const ClientOptions& options, ClientGround& ground,
                                             Checking& checking) {
  for (const std::string& name : options.names) {
    auto node = read_node(reading(ground), name);
    if (!node) {
      return tl::unexpected(node.error().kind == Error::Kind::Invalid
                                ? refused(ClientExit::Usage, node.error())
                                : refused(node.error()));
    }
    checking.take(*std::move(node));
  }
  return {};
}

// --- rehearse

ClientOutput refused_for(const std::string& node, const std::vector<std::string>& why,
                         const std::string& note = {}) {
  std::string text = "moonfence: the machine of node " + escaped(node, 256) +
                     " is not switched off, and nobody was told to:\n";
  for (const std::string& each : why) {
    text += "  - " + each + "\n";
  }
  return {.code = ClientExit::Refused, .out = {}, .err = text + note};
}

class Rehearsing {
 public:
  Rehearsing(const ClientOptions& options, ClientGround& ground, const Settings& settings,
             const std::vector<fence::BoundFencer>& fencers)
      : options_(options),
        ground_(ground),
        settings_(settings),
        name_(options.names.front()),
        line_({.config = ground.config,
               .allowed_reads = settings.allowed_reads,
               .endpoints = settings.endpoints,
               .fencers = fencers}),
        switching_off_({.ask = line_.around(), .tell = [this](const auto& text) { tell(text); }},
                       fencers) {}

  ClientOutput play() {
    for (const auto step :
         {&Rehearsing::look, &Rehearsing::confirm, &Rehearsing::see_it_alive, &Rehearsing::look,
          &Rehearsing::note_beginning, &Rehearsing::look_once_more}) {
      if (auto stopped = (this->*step)()) {
        return *std::move(stopped);
      }
    }
    return switch_off();
  }

 private:
  using Stopped = std::optional<ClientOutput>;

  // Fencers first: what is read of the node afterwards is younger than their word, and that counts
  // for ten seconds.
  Stopped look() {
    auto node = read_node(reading(ground_), name_);
    if (!node) {
      return node.error().kind == Error::Kind::Invalid ? refused(ClientExit::Usage, node.error())
                                                       : refused(node.error());
    }
    const auto answered = wait([&](const auto& done) { switching_off_.ask(*node, done); });
    const auto facts = read();
    if (!facts) {
      return refused(ClientExit::Failed, facts.error());
    }
    std::vector<std::string> why = objections(*facts, *node, options_.control_plane);
    if (!answered) {
      why.push_back(answered.error().message());
    } else {
      object_to_changes(*node, why);
    }
    if (!why.empty()) {
      return refused_for(name_, why,
                         answered ? "" : note_on_files(options_, ground_, settings_.endpoints));
    }
    node_ = *std::move(node);
    left_ = facts->left;
    return std::nullopt;
  }

  Result<RehearsalFacts> read() {
    auto facts = read_facts(reading(ground_), {.node = name_,
                                               .engine_namespace = ground_.engine_namespace,
                                               .hold_marks = settings_.hold_marks,
                                               .now = [this] { return ground_.client.now(); }});
    server_time_ = ground_.client.now();
    server_time_read_ = line_.loop().live_now();
    return facts;
  }

  // What is done is what the first look has shown.
  void object_to_changes(const kube::Node& node, std::vector<std::string>& why) {
    const RehearsalOrder now = {.node = node.uid,
                                .boot_id = node.boot_id,
                                .fencer = switching_off_.fencer(),
                                .endpoint = switching_off_.endpoint(),
                                .path = switching_off_.path()};
    if (!shown_) {
      shown_ = now;
    }
    for (std::string& change : changes(*shown_, now)) {
      why.push_back(std::move(change));
    }
  }

  // Right before the order: writing took its time, too.
  Stopped look_once_more() {
    const auto facts = read();
    const std::vector<std::string> why = facts ? objections(*facts, node_, options_.control_plane)
                                               : std::vector<std::string>{facts.error().message()};
    if (why.empty()) {
      return std::nullopt;
    }
    ClientOutput output = refused_for(name_, why);
    output.code = facts ? ClientExit::Refused : ClientExit::Failed;
    output.err += note_text(note(news_of_nothing(node_, why.front())));
    return output;
  }

  Stopped confirm() {
    if (!options_.yes.empty()) {  // and it is this node's name
      return std::nullopt;
    }
    const auto typed = os::ask_at_terminal(
        "This switches the machine of node " + name_ + " off, without a shutdown: fencer " +
        switching_off_.fencer() + " tells endpoint " + escaped(switching_off_.endpoint(), 64) +
        ": POST " + escaped(switching_off_.path(), 256) + ".\n" + std::to_string(left_) +
        " pods of DaemonSets, static or finished ones, end with it.\n"
        "Nothing switches it on again. Type the node's name to go on: ");
    if (typed == name_) {
      return std::nullopt;
    }
    return refused_for(name_, {typed ? "the node's name was not typed"
                                     : "nobody sits at a terminal who could type its name: add "
                                       "--yes " +
                                           name_});
  }

  Stopped see_it_alive() {
    began_ = line_.loop().live_now();
    const auto renewed =
        wait([&](const auto& done) { switching_off_.await_renewal(node_.name, done); });
    if (!renewed) {
      return refused_for(name_, {renewed.error().message()});
    }
    tell("its kubelet renews its Lease");
    return std::nullopt;
  }

  // Before anything is done: who does it stands at the node, or it is not done.
  Stopped note_beginning() {
    auto user = authenticated_user(ground_.client);
    if (!user && user.error().kind == Error::Kind::NotFound) {
      user = "somebody whom this API server cannot name";  // before 1.28
    }
    if (!user) {
      return refused(ClientExit::Failed, user.error());
    }
    user_ = escaped(*user, 256);
    if (auto noted = note(news_of_beginning(node_, user_, switching_off_.fencer())); !noted) {
      return refused(ClientExit::Failed,
                     Error(noted.error())
                         .within("who does it cannot be noted at the node, so nothing "
                                 "is switched off"));
    }
    return std::nullopt;
  }

  // From here on somebody may have been told, whatever happens.
  ClientOutput switch_off() {
    try {
      std::optional<SwitchingOff::End> end;
      switching_off_.order([&end](const SwitchingOff::End& ended) { end = ended; });
      while (!end) {
        line_.loop().turn();
      }
      return tell_end(*end);
    } catch (const std::exception& fault) {
      return unproven("this program has failed: " + escaped(fault.what(), 512));
    }
  }

  ClientOutput tell_end(const SwitchingOff::End& end) {
    if (end.came == SwitchingOff::Came::Nowhere) {
      ClientOutput output = refused_for(name_, {end.why});
      output.err += note_text(note(news_of_nothing(node_, end.why)));
      return output;
    }
    if (end.came == SwitchingOff::Came::NotProven) {
      ClientOutput output = unproven(end.why);
      output.err += note_text(note_end(news_of_failure(node_, switching_off_.fencer(), end.why)));
      return output;
    }
    const ReadOff off = {.fencer = switching_off_.fencer(), .reader = end.reader};
    // That it is written shows that the API server takes writes: the kubelet's would have come.
    if (const auto noted = note_end(news_of_proof(node_, off, user_)); !noted) {
      return unproven(unwritten_text(off, noted.error().message()));
    }
    return {.code = ClientExit::Ok, .out = proven_text(node_, off), .err = {}};
  }

  [[nodiscard]] ClientOutput unproven(const std::string& why) const {
    return {.code = ClientExit::Unproven, .out = {}, .err = unproven_text(node_, why)};
  }

  static std::string note_text(const Result<void>& noted) {
    return noted ? ""
                 : "note: the Event at the node could not be written: " + noted.error().message() +
                       "\n";
  }

  // A connection may have ended with the machine.
  Result<void> note_end(const kube::EventNews& news) {
    constexpr int kTries = 3;
    const WallTime at = now();
    Result<void> noted;
    for (int i = 0; i < kTries; ++i) {
      noted = note(news, at);
      if (noted) {
        break;
      }
    }
    return noted;
  }

  // By the API server, which may have said it a while ago.
  [[nodiscard]] WallTime now() {
    return server_time_ + (line_.loop().live_now() - server_time_read_);
  }

  Result<void> note(const kube::EventNews& news) { return note(news, now()); }

  // One of that time and name is ours: a try before has come through, and its answer was lost.
  Result<void> note(const kube::EventNews& news, WallTime at) {
    auto done = ground_.client.send(kube::event_request(news, at, "moonfence"));
    const bool stands = !done && done.error().http_status == 409;
    return done || stands ? Result<void>() : failure(std::move(done.error()));
  }

  template <class Start>
  Result<void> wait(Start start) {
    std::optional<Result<void>> answer;
    start([&answer](const Result<void>& done) { answer = done; });
    while (!answer) {
      line_.loop().turn();
    }
    return *std::move(answer);
  }

  void tell(const std::string& text) {
    const std::chrono::duration<double> at = line_.loop().live_now() - began_;
    std::array<char, 32> stamp{};
    std::snprintf(stamp.data(), stamp.size(), "%+6.1f s  ", at.count());
    ground_.tell(stamp.data() + text + "\n");
  }

  const ClientOptions& options_;
  ClientGround& ground_;
  const Settings& settings_;
  const std::string name_;
  FencerLine line_;
  SwitchingOff switching_off_;
  kube::Node node_;  // as it was when its fencers were asked
  std::string user_;
  std::size_t left_ = 0;
  std::optional<RehearsalOrder> shown_;  // when somebody was asked
  WallTime server_time_{};
  Moment server_time_read_{};
  Moment began_{};
};

}  // namespace

ClientOutput check_fencers(const ClientOptions& options, ClientGround& ground) {
  const auto settings = settings_for(options, ground);
  if (!settings) {
    return settings.error();
  }
  os::ThreadCpuClock clock;
  const auto fencers = fencers_for(options, ground, *settings, clock);
  if (!fencers) {
    return fencers.error();
  }
  const FencerAsking asking = {.config = ground.config,
                               .allowed_reads = settings->allowed_reads,
                               .endpoints = settings->endpoints,
                               .fencers = *fencers};
  Checking checking(asking);
  if (!options.names.empty()) {
    if (auto done = check_named(options, ground, checking); !done) {
      return std::move(done.error());
    }
  } else if (auto done = check_all(reading(ground), checking); !done) {
    return refused(ClientExit::Failed, done.error());
  }
  checking.ask();
  const FencerReport report = {.nodes = checking.told(), .any_bound = !fencers->empty()};
  const fence::FencerCounts counts = report.counts();
  ClientOutput output = {
      .code = counts.works == counts.all() ? ClientExit::Ok : ClientExit::Unproven,
      .out = options.form() == OutputForm::Table
                 ? fencer_text(report)
                 : document_text(fencer_document(report), options.form()),
      .err = {}};
  if (counts.broken > 0) {
    output.err = note_on_files(options, ground, settings->endpoints);
  }
  return output;
}

ClientOutput rehearse_fencer(const ClientOptions& options, ClientGround& ground) {
  const auto settings = settings_for(options, ground);
  if (!settings) {
    return settings.error();
  }
  os::ThreadCpuClock clock;
  const auto fencers = fencers_for(options, ground, *settings, clock);
  if (!fencers) {
    return fencers.error();
  }
  return Rehearsing(options, ground, *settings, *fencers).play();
}

}  // namespace moonfence::app
