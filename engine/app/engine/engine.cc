#include "app/engine/engine.h"

#include <algorithm>
#include <memory>
#include <set>
#include <utility>

#include "app/engine/assigned_policies.h"
#include "app/engine/call_observers.h"
#include "app/engine/display_host.h"
#include "app/engine/node_audience.h"
#include "app/engine/remediation_host.h"
#include "app/engine/rewind.h"
#include "app/engine/self_test.h"
#include "app/engine/situation_teller.h"
#include "app/engine/status_reporter.h"
#include "app/machines/machine_watch.h"
#include "app/policies/policy_feed.h"
#include "app/policies/policy_reports.h"
#include "app/settings/version.h"
#include "app/telling/announcer.h"
#include "app/telling/failover_times.h"
#include "app/telling/records.h"
#include "app/traces/tracer.h"
#include "app/webhook/webhook.h"
#include "audit/trail.h"
#include "base/text.h"
#include "cluster/endpoints/endpoint.h"
#include "cluster/nodes/node_cache.h"
#include "fence/display/incident_display.h"
#include "fence/fencers/fencer_check.h"
#include "fence/incident/incidents_by_signal.h"
#include "fence/incident/plan_ahead.h"
#include "fence/leadership/leadership.h"
#include "fence/lift/taint_lifter.h"
#include "fence/publication/evidence_publisher.h"
#include "fence/read/idle_nodes.h"
#include "fence/record/journal.h"
#include "fence/remediation/remediations.h"
#include "fence/silence/silent_taints.h"
#include "kube/auth/live_credentials.h"
#include "kube/calls/events.h"
#include "kube/leader_election/elector.h"
#include "kube/leases/revisions.h"
#include "kube/wire/heartbeat.h"
#include "kube/wire/server_clock.h"
#include "kube/wire/server_pace.h"
#include "policy/bundle/policy_set.h"

namespace moonfence::app {
namespace {

// How long deletions that have left are waited for when we are asked to stop.
constexpr Duration kDrainLimit = std::chrono::seconds(6);
// How long a receiver of traces may take for the last ones.
constexpr Duration kLastWords = std::chrono::seconds(1);
constexpr Duration kDrainPoll = std::chrono::milliseconds(20);

// "3f09c1d2a7": short enough to read out at night, long enough not to repeat.
IncidentId make_incident_id(port::Random& random) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  std::uint64_t value = random.next();
  for (int i = 0; i < 10; ++i) {
    text += kDigits[value & 0xFU];
    value >>= 4U;
  }
  return IncidentId(text);
}

// Never used twice: a replica that starts again must not take its predecessor's term for its own.
// The part before the first '_' is the pod's name, by which the API server can check the holder
// too.
std::string make_identity(const std::string& instance, port::Random& random) {
  return instance + "_" + make_incident_id(random).text() + make_incident_id(random).text();
}

}  // namespace

class Engine::Graph final : public fence::Leadership {
 public:
  Graph(Assignment assignment, const Surroundings& around)
      : told_(std::move(assignment)),
        wall_clock_(around.wall_clock),
        log_(around.log),
        board_(around.status_board != nullptr ? *around.status_board : own_board_),
        on_evaluation_(around.on_evaluation),
        loop_(around.loop),
        credentials_({loop_, around.http, around.files, around.processes, wall_clock_, log_},
                     told_.config.connection),
        caller_(loop_, around.http, credentials_, log_, told_.config.connection.server,
                user_agent()),
        guests_caller_(loop_, around.http, credentials_, log_, told_.config.connection.server,
                       user_agent()),
        reader_(caller_),
        lease_revisions_(loop_, caller_, log_),
        endpoints_({loop_, around.http, around.files, log_, user_agent()},
                   told_.settings.endpoints),
        records_(around.append_audit, log_, metrics_,
                 [this](const audit::Record& record, WallTime at) { announce(record, at); }),
        trail_(wall_clock_, records_),
        protections_({.namespaces = told_.settings.protected_namespaces,
                      .own_node = NodeName(told_.node_name),
                      .hold_marks = told_.settings.hold_marks,
                      .proof = told_.settings.proof,
                      .fail_pods = told_.settings.fail_pods}),
        machines_(loop_, around.http, around.random, log_, told_.witness_secret,
                  told_.settings.detection.on ? around.links : nullptr),
        power_watch_(told_.fencers.empty() ? nullptr
                                           : std::make_unique<fence::PowerWatch>(
                                                 fence::PowerWatch::Surroundings{
                                                     .loop = loop_,
                                                     .reader = reader_,
                                                     .allowed_reads = told_.settings.allowed_reads,
                                                     .endpoints = &endpoints_,
                                                     .log = log_,
                                                     .found =
                                                         [this](const NodeName& name) {
                                                           incidents_.evidence_found(name);
                                                           evidence_.power_read(name);
                                                         }},
                                                 told_.fencers)),
        brake_(told_.settings.brake),
        self_test_(loop_, log_, metrics_),
        peer_lease_reader_(
            loop_, reader_, *this, [this] { return server_now(); }, lease_revisions_.revisions(),
            [this](const NodeName& name) { return standing_if_up(name); }),
        actions_(
            loop_, kube::Destroyer(caller_), trail_,
            [this] {
              if (elector_) {
                elector_->deposed();
              }
            },
            &endpoints_),
        events_random_(around.random.fork("events")),
        events_(loop_, caller_, wall_clock_, *events_random_, log_, told_.instance),
        election_random_(around.random.fork("election")),
        identity_(make_identity(told_.instance, *election_random_)),
        journal_random_(around.random.fork("journal")),
        journal_({loop_, caller_, *journal_random_, log_, *this}, Namespace(told_.engine_namespace),
                 identity_, [this] { return server_now(); }),
        pods_random_(around.random.fork("pods")),
        pod_watches_{loop_, caller_, *pods_random_, log_},
        looks_(loop_),
        evidence_({.loop = loop_,
                   .caller = caller_,
                   .log = log_,
                   .leadership = *this,
                   .active = active_,
                   .protections = protections_,
                   .kernels = machines_.witnesses(),
                   .now = [this] { return server_now(); },
                   .published = [this](const auto& news) { events_.record(news_of(news)); }},
                  told_.settings.publish_evidence),
        incident_random_(around.random.fork("incidents")),
        incidents_(
            incident_context(), rules(), [this] { return make_incident_id(*incident_random_); },
            [this](const NodeName& name) { return nodes_.find(name); }),
        taint_lifter_(incident_context(),
                      [this](const NodeName& name) { return incidents_.is_failed(name); }),
        silent_taints_(incident_context(), told_.settings.silent_taint && !told_.on_demand,
                       {.count = [this] { return static_cast<std::size_t>(nodes_.counts().total); },
                        .find = [this](const NodeName& name) { return nodes_.find(name); }}),
        audience_(incidents_, taint_lifter_, silent_taints_, evidence_, machines_.detection(),
                  told_.on_demand),
        nodes_(loop_, log_, told_.settings.cache_expiry, audience_,
               {.exclude = told_.settings.brake.exclude,
                .server_now = [this] { return server_now(); },
                .hold =
                    [this](const nlohmann::json& node) {
                      return fence::hold_on_node(node, told_.settings.hold_marks);
                    }}),
        idle_nodes_(loop_, reader_, brake_, log_,
                    [this](const NodeName& name) { nodes_.excuse(name); }),
        fencer_check_(
            told_.fencers.empty() || told_.on_demand
                ? nullptr
                : std::make_unique<fence::FencerCheck>(
                      fence::FencerCheck::Surroundings{
                          .loop = loop_,
                          .reader = reader_,
                          .allowed_reads = told_.settings.allowed_reads,
                          .endpoints = &endpoints_,
                          .log = log_,
                          .each_node = [this](const auto& tell) { nodes_.each(tell); },
                          .now = [this] { return server_now(); },
                          .broke = [this](const auto& broken) { events_.record(news_of(broken)); }},
                      told_.fencers)),
        remediation_host_(incidents_, nodes_, [this] { return server_now(); }),
        remediation_random_(around.random.fork("remediation")),
        remediations_(told_.settings.node_health_check && !told_.on_demand
                          ? std::make_unique<fence::Remediations>(
                                fence::StatusWriter::Surroundings{.loop = loop_,
                                                                  .caller = caller_,
                                                                  .random = *remediation_random_,
                                                                  .log = log_,
                                                                  .leadership = *this},
                                remediation_host_)
                          : nullptr),
        display_host_(incidents_, actions_, board_, [this] { return server_now(); }),
        display_random_(around.random.fork("display")),
        display_(told_.settings.incident_objects && !told_.on_demand
                     ? std::make_unique<fence::IncidentDisplay>(
                           fence::IncidentDisplay::Surroundings{.loop = loop_,
                                                                .caller = caller_,
                                                                .random = *display_random_,
                                                                .log = log_,
                                                                .leadership = *this},
                           Namespace(told_.engine_namespace), display_host_)
                     : nullptr),
        webhook_random_(around.random.fork("webhook")),
        webhook_(told_.settings.webhook && !told_.on_demand
                     ? std::make_unique<Webhook>(
                           Webhook::Surroundings{
                               .endpoints = {loop_, around.http, around.files, log_, user_agent()},
                               .random = *webhook_random_,
                               .now = [this] { return server_now(); },
                               .may_send =
                                   [this] {
                                     const auto until = acts_until();
                                     return until && loop_.live_now() < *until;
                                   },
                               .is_acting = [this] { return actions_.in_flight() > 0; }},
                           *told_.settings.webhook, "/moonfence/" + told_.engine_namespace)
                     : nullptr),
        traces_random_(around.random.fork("traces")),
        tracer_(told_.settings.traces && !told_.on_demand
                    ? std::make_unique<Tracer>(
                          Tracer::Surroundings{
                              .endpoints = {loop_, around.http, around.files, log_, user_agent()},
                              .random = *traces_random_,
                              .is_acting = [this] { return actions_.in_flight() > 0; }},
                          *told_.settings.traces,
                          Tracer::Identity{.space = told_.engine_namespace,
                                           .instance = told_.instance,
                                           .version = std::string(version()),
                                           .run = identity_})
                    : nullptr),
        watch_random_(around.random.fork("watch")),
        node_watch_(
            loop_, caller_, *watch_random_, log_,
            cluster::NodeCache::target(machines_.are_watched() ? kube::KubeletAddresses::Kept
                                                               : kube::KubeletAddresses::LeftOut),
            nodes_),
        policies_random_(around.random.fork("policies")),
        heartbeat_(loop_, caller_, around.http, log_),
        server_clock_(loop_),
        observers_(server_clock_, metrics_, self_test_, machines_.detection(),
                   [this] { went_back(); }),
        rewind_(log_) {
    if (!told_.on_demand) {
      status_.emplace(board_,
                      StatusReporter::Identity{
                          .instance = told_.instance,
                          .node = told_.node_name,
                          .server = told_.config.connection.server,
                          .policy_file = told_.policy == nullptr ? "" : told_.policy->name(),
                          .witness_address = machines_.are_watched() ? told_.witness_address : "",
                          .witness_key = machines_.public_key()},
                      wall_clock_.now());
    }
    caller_.observe(&observers_);
    caller_.keep_pace(&pace_);
    journal_.tell(display_.get());
    metrics_.set_limits(fence::switched_off(told_.settings.brake));
    incidents_.await_records();
    if (told_.on_demand) {
      incidents_.look_at_named_only();
    }
    if (told_.leader_elect) {
      step_down();  // until the Lease is ours
      elector_.emplace(
          kube::Elector::Surroundings{loop_, caller_, *election_random_, wall_clock_, log_, pace_},
          ObjectRef{.space = Namespace(told_.engine_namespace), .name = "moonfence"}, identity_,
          told_.settings.election,
          kube::Elector::Receivers{.lead = [this] { lead(); },
                                   .lose = [this](const auto& /*why*/) { step_down(); },
                                   .wanted = [this] { yield(); },
                                   .wrote =
                                       [this](const kube::Lease& lease, Moment sent) {
                                         if (machines_.are_watched()) {
                                           lease_revisions_.heard(lease.version, sent);
                                         }
                                       }},
          kube::Seats{.node = told_.node_name,
                      .seat_of = [this](const auto& node) { return seat_of(NodeName(node)); }});
    }
    events_.hold_while([this] { return actions_.in_flight() > 0; });
    if (told_.policy != nullptr) {
      activate(set_of_the_file(told_));
      metrics_.set_policies(
          {{.policy = told_.policy->name(),
            .version = told_.policy->version(),
            .digest = told_.policy->digest(),
            .mode = std::string(policy::to_string(mode_of_the_file(told_))),
            .state = mode_of_the_file(told_) == policy::Mode::Enforce ? "Active" : "Observe"}});
    } else {
      feed_.emplace(
          PolicyFeed::Surroundings{loop_, caller_, *policies_random_, log_, around.cpu_clock,
                                   events_},
          Namespace(told_.engine_namespace), told_.instance,
          reload_rules(told_, machines_.are_watched()),
          PolicyFeed::Receivers{
              .now = [this] { return server_now(); },
              .activate = [this](auto set) { activate(std::move(set)); },
              .report =
                  [this](const auto& report, const auto& news) {
                    policy_reports_.tell_reload(report, news, server_now());
                  },
              .changed =
                  [this](const auto& report) { policy_reports_.show(report, server_now()); }});
      machines_.follow_replicas(caller_, Namespace(told_.engine_namespace), told_.instance);
    }
    tell_readiness();
  }

  ~Graph() override {
    journal_.tell(nullptr);
    caller_.observe(nullptr);
    caller_.keep_pace(nullptr);
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  void start() {
    health_.alive(loop_.now());
    tell_start();
    tell_state();
    heartbeat_.start();
    if (!told_.on_demand) {
      lease_revisions_.start();
    }
    if (elector_) {
      elector_->start();
    } else {
      leads_ = true;
      act_beside(true);
      check_fencers(true);
      read_records();
    }
    node_watch_.start();
    if (feed_) {
      feed_->start();
    }
    machines_.start();
  }

  void drain(std::function<void()> left) {
    left_ = std::move(left);
    log_.info("stopping", {{"in_flight", static_cast<std::int64_t>(actions_.in_flight())}});
    incidents_.stop();
    act_beside(false);
    check_fencers(false);
    journal_.flush();
    drain_deadline_ = loop_.after(kDrainLimit, [this] { say_the_rest(); });
    leave_when_drained();
  }

  Supposed suppose_fallen(const NodeName& name, bool although_up) {
    const cluster::NodeView* known = nodes_.find(name);
    if (known == nullptr) {
      supposed_deleted_.insert(name);  // a record may name it
      review_records();
      return Supposed::Unknown;
    }
    cluster::NodeView view = *known;
    if (!cluster::is_down(view.readiness)) {
      if (!although_up) {
        incidents_.name(name);
        return incidents_.is_failed(name) ? Supposed::Fallen : Supposed::Up;
      }
      cluster::Census& census = supposed_ ? *supposed_ : supposed_.emplace(nodes_.census());
      census.remove(view);
      view.readiness = cluster::Readiness::Unknown;
      view.keeps_replacements_off = true;
      census.add(view);
      incidents_.census_changed(census);
      incidents_.suppose_failed(name);
    } else {
      incidents_.name(name);
    }
    incidents_.look_at(view, cluster::Look::Fell);
    return Supposed::Fallen;
  }
  [[nodiscard]] std::shared_ptr<const policy::PolicySet> policies() const {
    return active_.current();
  }

  [[nodiscard]] Result<std::string> testify(std::string_view nonce, std::string_view nodes,
                                            Moment now) const {
    return machines_.testify(nonce, nodes, now);
  }
  [[nodiscard]] kube::Caller& guests_caller() { return guests_caller_; }
  [[nodiscard]] Metrics& metrics() { return metrics_; }
  [[nodiscard]] Health& health() { return health_; }

  [[nodiscard]] std::optional<Moment> acts_until() const override {
    return elector_ ? elector_->leading_until() : Moment::max();
  }
  [[nodiscard]] fence::Limits limits() const override {
    const Moment now = loop_.now();
    return {.reading = pace_.reading_lifetime(now),
            .call = pace_.call_limit(now),
            .longest_call = pace_.longest_call_under_way(now),
            .round_trip = pace_.quickest_read(now)};
  }
  [[nodiscard]] std::string slowness() const override { return pace_.slowness(loop_.now()); }

 private:
  [[nodiscard]] fence::IncidentContext incident_context() {
    return {{.access = {.loop = loop_,
                        .reader = reader_,
                        .peer_lease_reader = peer_lease_reader_,
                        .cluster_facts = [this] { return facts(); },
                        .allowed_reads = told_.settings.allowed_reads,
                        .endpoints = &endpoints_,
                        .pod_watches = &pod_watches_,
                        .looks = &looks_,
                        .prove_policies = policy_proof(),
                        .written = [this](const kube::Lease& lease) { return written(lease); }},
             .output = {.journal = journal_,
                        .trail = trail_,
                        .log = log_,
                        .ran =
                            [this](const std::string& policy, const policy::Usage& usage) {
                              metrics_.count_run(policy, usage);
                            },
                        .on_evaluation = on_evaluation_},
             .in_force = {.active = active_,
                          .leadership = *this,
                          .brake = brake_,
                          .doubt = self_test_.doubt(),
                          .protections = protections_,
                          .fencing_drivers = told_.settings.fencing_drivers,
                          .release = told_.settings.release,
                          .quarantine = told_.settings.quarantine,
                          .kernels = machines_.witnesses(),
                          .powers = power_watch_.get(),
                          .evidence = told_.on_demand ? nullptr : &evidence_}},
            actions_,
            told_.on_demand ? nullptr : &preplannings_};  // a plan shows what a pass does
  }

  [[nodiscard]] fence::ProvePolicies policy_proof() {
    if (told_.policy != nullptr) {
      return {};
    }
    return [this](std::weak_ptr<const void> alive, std::function<void(const Result<void>&)> done) {
      feed_->prove(std::move(alive), std::move(done));
    };
  }

  // A plan is asked for by somebody who has watched nothing yet, and acts on nothing: it believes
  // the stamps. Whoever acts has looked on for long.
  [[nodiscard]] kube::Revisions::Written written(const kube::Lease& lease) const {
    if (!told_.on_demand) {
      return lease_revisions_.revisions().written(lease.version);
    }
    const auto& renewed = lease.record.renewed;
    const auto at = renewed ? std::optional(loop_.now() - (server_now() - *renewed)) : std::nullopt;
    return {.after = at, .by = at};
  }

  void lead() {
    leads_ = true;
    if (rewind_.is_listing()) {
      return;  // by what stands there now, when it is known
    }
    metrics_.set_leader(
        true);               // not at the next tick: whoever sees us act may ask in the same moment
    if (!told_.on_demand) {  // a plan is answered what it asks for
      taint_lifter_.check_right();
    }
    leads_ = true;
    incidents_.lead();
    act_beside(true);
    check_fencers(true);
    incidents_.await_records();
    read_records();
    nodes_.look_again(cluster::Look::TookOver);
  }

  // Nothing is done before what other leaders left behind is known.
  void read_records() {
    journal_.read([this](const std::vector<fence::Journal::Found>& found) {
      for (const fence::Journal::Found& each : found) {
        if (webhook_ != nullptr) {
          webhook_->recall(each.record);
        }
      }
      if (tracer_ != nullptr) {
        tracer_->recall(found, server_ahead());
      }
      incidents_.take_over(found);
      review_records();
      for (const fence::Journal::Found& each : found) {
        if (status_) {
          status_->recall(each.record);
        }
      }
    });
  }

  void review_records() {
    if (nodes_.synced()) {
      const auto find = [this](const NodeName& name) { return nodes_.find(name); };
      incidents_.review(find);
      incidents_.take_up_deleted(find, [this](const NodeName& name) {
        return !told_.on_demand || supposed_deleted_.contains(name);
      });
    }
  }

  void step_down() {
    leads_ = false;
    yield_poll_.cancel();
    metrics_.set_leader(false);
    incidents_.step_down();
    act_beside(false);
    check_fencers(false);
    journal_.forget();
  }

  // As long as we lead.
  void check_fencers(bool leads) {
    if (fencer_check_ != nullptr) {
      leads ? fencer_check_->lead() : fencer_check_->step_down();
    }
  }

  // What is done beside the incidents, as long as we lead.
  void act_beside(bool leads) {
    leads ? taint_lifter_.lead() : taint_lifter_.step_down();
    leads ? silent_taints_.lead() : silent_taints_.step_down();
    leads ? evidence_.lead() : evidence_.step_down();
    if (remediations_ != nullptr) {
      leads ? remediations_->lead() : remediations_->step_down();
    }
    if (display_ != nullptr) {
      leads ? display_->lead() : display_->step_down();
    }
    if (webhook_ != nullptr) {
      leads ? webhook_->lead() : webhook_->step_down();
    }
  }

  // Another replica sits better: what has left ends first, and what came of it is written down.
  void yield() {
    leads_ = false;
    metrics_.set_leader(false);
    incidents_.step_down();
    act_beside(false);
    check_fencers(false);
    journal_.flush();
    yield_when_drained();
  }

  void yield_when_drained() {
    if (actions_.in_flight() == 0 && journal_.idle()) {
      elector_->hand_over();  // step_down() follows
      return;
    }
    yield_poll_ = loop_.after(kDrainPoll, [this] { yield_when_drained(); });
  }

  // As long as nobody knows the nodes, that is no reason to lead or not to. One that is not there
  // is no place to lead from; nobody asks about a replica that names none.
  [[nodiscard]] kube::Seat seat_of(const NodeName& name) const {
    const cluster::NodeView* node = nodes_.find(name);
    if (node == nullptr) {
      return nodes_.synced() ? kube::Seat::Down : kube::Seat::Well;
    }
    const bool failed = name.text() == told_.node_name && loop_.now() < own_node_failed_until_;
    if (cluster::is_down(node->readiness) || incidents_.is_failed(name) || failed) {
      return kube::Seat::Down;
    }
    return node->unschedulable || node->fenced || !node->out_of_service_mark.empty()
               ? kube::Seat::Leaving
               : kube::Seat::Well;
  }

  [[nodiscard]] fence::IncidentRules rules() const {
    return {
        .hold_downs = {},
        .retry = {.interval = told_.settings.retry_interval, .window = told_.settings.retry_window},
        .replacement_wait = told_.settings.replacement_wait};
  }

  // Everybody decides by this set from now on.
  void activate(std::shared_ptr<const policy::PolicySet> set) {
    active_.activate(std::move(set));
    incidents_.policies_changed();
    // Which of the two lists comes first at the start says nothing.
    nodes_.look_again(std::exchange(knows_policies_, true) ? cluster::Look::PoliciesChanged
                                                           : cluster::Look::Swept);
  }

  [[nodiscard]] WallTime server_now() const {
    return server_clock_.now().value_or(wall_clock_.now());
  }

  // What a node counts for that is believed to be up.
  [[nodiscard]] const cluster::Standing* standing_if_up(const NodeName& name) const {
    const cluster::NodeView* node = nodes_.find(name);
    return node != nullptr && !cluster::is_down(node->readiness) ? &node->standing : nullptr;
  }

  [[nodiscard]] policy::ClusterFacts facts() const {
    const cluster::NodeCounts counts = nodes_.counts();
    return {.now = server_now(),
            .nodes_total = counts.total,
            .nodes_ready = counts.ready,
            .nodes_schedulable = counts.schedulable};
  }

  void announce(const audit::Record& record, WallTime at) {
    if (status_) {
      status_->hear(record, at);
    }
    times_.note(record, loop_.now(), down_for(record.node));
    if (tracer_ != nullptr) {
      tracer_->hear(record, at, fell_at(record, at));
    }
    if (remediations_ != nullptr) {
      remediations_->hear(record);
    }
    if (display_ != nullptr && record.kind == audit::Record::Kind::IncidentOpened) {
      display_->give_way();
    }
    if (webhook_ != nullptr) {
      webhook_->hear(record);
    }
    if (const auto news = news_of(record)) {
      events_.record(*news);
    }
  }

  // How far the API server's clock is ahead of ours; zero where that may be the resolution alone,
  // so that every replica names the same time.
  [[nodiscard]] Duration server_ahead() const {
    constexpr Duration kResolution = std::chrono::seconds(2);
    const Duration ahead = server_now() - wall_clock_.now();
    return ahead < kResolution && -ahead < kResolution ? Duration::zero() : ahead;
  }

  // When the record's node did, by our clock: its machine's last sign of life where that opened the
  // incident, else the stamp of its Ready condition, which may be anything.
  [[nodiscard]] std::optional<WallTime> fell_at(const audit::Record& record, WallTime at) const {
    if (record.reason == audit::Reason::NodeLost) {
      const cluster::Kernels* kernels = machines_.witnesses();
      const auto sign = kernels == nullptr ? std::nullopt : kernels->last_sign(record.node);
      return sign ? std::optional<WallTime>(at - (loop_.now() - *sign)) : std::nullopt;
    }
    const cluster::NodeView* node = nodes_.find(record.node);
    return node == nullptr || !node->since || *node->since < WallTime{}
               ? std::nullopt
               : std::optional<WallTime>(*node->since - server_ahead());
  }

  // By Kubernetes' own stamp.
  [[nodiscard]] std::optional<Duration> down_for(const NodeName& name) const {
    const cluster::NodeView* node = nodes_.find(name);
    return node == nullptr || !node->since ? std::nullopt
                                           : std::optional<Duration>(server_now() - *node->since);
  }

  void tell_start() {
    for (const std::string& warning : told_.config.warnings) {
      log_.warning("configuration", {{"text", warning}});
    }
    if (told_.settings.silent_taint && !machines_.are_watched()) {
      log_.warning("configuration",
                   {{"text", "silentTaint: on does nothing without detection: on"}});
    }
    if (machines_.are_watched() && told_.witness_address.empty()) {
      log_.warning("witness_without_address",
                   {{"text",
                     "other replicas cannot ask this one what it hears: POD_IP is not set, "
                     "or --health-probe-bind-address is not that of all addresses"}});
    }
    log_.info(
        "started",
        {{"version", version()},
         {"server", told_.config.connection.server},
         {"config", told_.config.connection.origin},
         {"ceiling", policy::to_string(told_.mode.value_or(
                         told_.policy == nullptr ? policy::Mode::Enforce : policy::Mode::Observe))},
         {"policies", told_.policy == nullptr
                          ? "ConfigMap " + told_.engine_namespace + "/moonfence-policies"
                          : told_.policy->name() + " in namespace " + told_.policy_namespace}});
  }

  // Whoever does not lead asks no health source, and would ask for leadership back at once.
  void remember_own_node() {
    constexpr Duration kRemembered = std::chrono::hours(1);
    if (leads_) {
      own_node_failed_until_ =
          incidents_.is_failed(NodeName(told_.node_name)) ? loop_.now() + kRemembered : Moment{};
    }
  }

  // Gauges, readiness and the sign of life, every second. Also what wakes an idle loop.
  void tell_state() {
    health_.alive(loop_.now());
    heed_rewind();
    test_self();
    brake_.pass_time(loop_.now());
    if (acts_until() > loop_.now()) {
      idle_nodes_.look();
    }
    remember_own_node();
    tell_readiness();
    if (feed_) {
      feed_->tell_failing(incidents_.failing_policies());
      feed_->tell_sources(incidents_.source_states());
      const kube::WatchHealth& policies = feed_->watch_health();
      metrics_.set_watch("policies", policies, loop_.now() - policies.last_heard);
      policy_reports_.tell_stale(feed_->last_report(), server_now());
    }
    metrics_.set_nodes(nodes_.counts());
    review_records();
    const auto until = acts_until();
    metrics_.set_leader(until && *until > loop_.now() && !yield_poll_.pending());
    metrics_.set_pace(limits(), elector_ ? elector_->term() : Duration::zero(),
                      pace_.is_too_slow(loop_.now()));
    metrics_.set_awaited_replacements(incidents_.awaited_replacements());
    const kube::WatchHealth& watch = node_watch_.health();
    metrics_.set_watch("nodes", watch, loop_.now() - watch.last_heard);
    metrics_.set_audit_failures(trail_.failures());
    tell_status();
    metrics_.set_events(events_.queued(), events_.dropped());
    metrics_.set_missed_heartbeats(heartbeat_.misses());
    machines_.tell(metrics_, health_, server_now());
    if (remediations_ != nullptr) {
      remediations_->look();
    }
    if (display_ != nullptr) {
      display_->look();
    }
    if (webhook_ != nullptr) {
      webhook_->look(*board_.read(), *active_.current());
      metrics_.set_delivery(webhook_->delivery());
    }
    if (tracer_ != nullptr) {
      metrics_.set_delivery(tracer_->delivery());
      metrics_.set_rejected_spans(tracer_->rejected());
      metrics_.set_left_out_of_traces("incidents", tracer_->untraced());
      metrics_.set_left_out_of_traces("spans", tracer_->left_out());
    }
    if (nodes_.synced() && !told_synced_) {
      told_synced_ = true;
      log_.info("synced", {{"nodes", nodes_.counts().total}, {"ready", nodes_.counts().ready}});
    }
    // Until the first list is through somebody may be waiting for /readyz.
    const Duration pause =
        told_synced_ ? Duration(std::chrono::seconds(1)) : Duration(std::chrono::milliseconds(20));
    tick_ = loop_.after(pause, [this] { tell_state(); });
  }

  // Also before the start: whoever asks in between is told what is missing.
  void tell_readiness() {
    const kube::WatchHealth& watch = node_watch_.health();
    health_.set_ready("nodes-synced", nodes_.synced() ? "" : "the nodes were not listed yet");
    health_.set_ready("nodes-watch",
                      doubts(fence::SelfDoubt::Cause::NodesUnwatched) && watch.last_error.empty()
                          ? "what became of the nodes was last known " +
                                format_duration(loop_.now() - watch.whole_at) + " ago"
                          : watch.last_error);
    if (feed_) {
      const kube::WatchHealth& policies = feed_->watch_health();
      const std::string unproven = doubts(fence::SelfDoubt::Cause::PoliciesUnwatched)
                                       ? "mode and policies were last read live " +
                                             format_duration(loop_.now() - feed_->proven_at()) +
                                             " ago"
                                       : "";
      health_.set_ready("policies", feed_->not_ready().empty()    ? unproven
                                    : policies.last_error.empty() ? feed_->not_ready()
                                                                  : policies.last_error);
    }
    if (elector_) {
      health_.set_ready("lease", elector_->problem());
    }
    health_.set_ready("incident-records", journal_.problem());
    health_.note("nodes-synced", lease_revisions_.problem());
    if (told_.settings.publish_evidence) {
      health_.set_ready("evidence", "");
      health_.note("evidence", evidence_.problem());
    }
    if (remediations_ != nullptr) {
      health_.set_ready("remediation", "");
      health_.note("remediation", remediations_->problem());
    }
    if (display_ != nullptr) {
      health_.set_ready("incident-objects", "");
      health_.note("incident-objects", display_->problem());
    }
    if (webhook_ != nullptr) {
      health_.set_ready("webhook", "");
      health_.note("webhook", webhook_->problem());
    }
    if (tracer_ != nullptr) {
      health_.set_ready("traces", "");
      health_.note("traces", tracer_->delivery().problem());
    }
  }

  [[nodiscard]] bool doubts(fence::SelfDoubt::Cause cause) const {
    return self_test_.doubt().causes().contains(cause);
  }

  // One collection went back in time: the whole store did, and the others are no better known. In
  // the middle of somebody's call: what follows comes in the next turn.
  void went_back() {
    rewind_.heard();
    self_test_.went_back();
    forget_leases();
    rewind_turn_ = loop_.in_next_turn([this] { heed_rewind(); });
  }

  void forget_leases() {
    lease_revisions_.forget();
    peer_lease_reader_.forget();
  }

  void heed_rewind() {
    rewind_.look({.nodes = node_watch_,
                  .policies = feed_ ? &*feed_ : nullptr,
                  .journal = journal_,
                  .drop = [this] { drop_incidents(); },
                  .take_up =
                      [this] {
                        if (leads_) {
                          lead();
                        }
                      }},
                 loop_.now());
    health_.set_ready("store", rewind_.problem());
  }

  // What is known of them may be of a time that never was. They are opened anew by what stands
  // there.
  void drop_incidents() {
    incidents_.step_down(audit::Reason::StoreWentBack);
    act_beside(false);
    journal_.begin_anew();
  }

  void tell_status() {
    if (!status_) {
      return;
    }
    status_->publish({.health = health_,
                      .nodes = nodes_,
                      .by_signal = incidents_,
                      .brake = brake_,
                      .brake_rules = told_.settings.brake,
                      .taint_lifter = taint_lifter_,
                      .silent_taints = silent_taints_,
                      .doubt = self_test_.doubt(),
                      .slowness = slowness(),
                      .trail = trail_,
                      .active = *active_.current(),
                      .feed = feed_ ? &*feed_ : nullptr,
                      .elector = elector_ ? &*elector_ : nullptr,
                      .mode = mode_of_the_file(told_),
                      .detection = machines_.detection(),
                      .witnesses = machines_.witnesses(),
                      .machine_history = machines_.history(),
                      .fencer_check = fencer_check_.get()},
                     loop_.now(), wall_clock_.now());
    const std::shared_ptr<const StatusSnapshot> snapshot = board_.read();
    metrics_.set_stands(*snapshot);
    if (feed_) {
      situation_.tell(*snapshot, actions_.in_flight() > 0, loop_.now(), *feed_);
    }
  }

  void test_self() {
    self_test_.look({.nodes = node_watch_,
                     .policies = feed_ ? &*feed_ : nullptr,
                     .elector = elector_ ? &*elector_ : nullptr,
                     .went_back = rewind_.lasts(),
                     .trusted_again = [this] {
                       forget_leases();  // a store may have been restored meanwhile
                       incidents_.trust_restored();
                     }});
  }

  void leave_when_drained() {
    if (actions_.in_flight() == 0) {
      journal_.flush();
    }
    if (actions_.in_flight() == 0 && journal_.idle()) {
      // Freed last: what we started must not run beside what the next leader starts.
      if (elector_) {
        metrics_.set_leader(false);  // another may lead before we hear that it is free
        elector_->release([this] { say_the_rest(); });
      } else {
        say_the_rest();
      }
      return;
    }
    drain_poll_ = loop_.after(kDrainPoll, [this] { leave_when_drained(); });
  }

  // Another may act by now, or we have waited long enough for that, so the last spans hold up
  // nobody.
  void say_the_rest() {
    if (std::exchange(says_the_rest_, true)) {
      return;
    }
    drain_deadline_.cancel();
    if (tracer_ != nullptr) {
      tracer_->flush();
    }
    say_until_ = loop_.now() + kLastWords;
    leave_when_said();
  }

  void leave_when_said() {
    if (tracer_ == nullptr || tracer_->is_idle() || loop_.now() >= say_until_) {
      leave();
      return;
    }
    drain_poll_ = loop_.after(kDrainPoll, [this] { leave_when_said(); });
  }

  void leave() {
    drain_deadline_.cancel();
    if (const auto left = std::exchange(left_, nullptr)) {
      left();
    }
  }

  // Built from top to bottom, destroyed in reverse: whatever is used stands above its users.
  const Assignment told_;
  port::WallClock& wall_clock_;
  port::Log& log_;
  StatusBoard own_board_;  // where nobody wants to see a page
  StatusBoard& board_;
  const fence::EvaluationWatch on_evaluation_;
  Metrics metrics_;
  FailoverTimes times_{
      [this](std::string_view stage, Duration took) { metrics_.observe_stage(stage, took); }};
  Health health_;
  loop::Loop& loop_;
  kube::LiveCredentials credentials_;
  kube::ServerPace pace_;
  kube::Caller caller_;
  // Of questions that others cause: how long they take must not count as the API server's pace.
  kube::Caller guests_caller_;
  kube::Reader reader_;
  kube::LeaseRevisions lease_revisions_;
  cluster::Endpoints endpoints_;
  std::optional<StatusReporter> status_;  // absent: a rehearsal
  Records records_;
  audit::Trail trail_;
  policy::ActiveSet active_;  // before the actions, which ask it until they are gone
  PolicyReports policy_reports_{log_, metrics_, health_, active_};
  const fence::Protections protections_;
  MachineWatch machines_;
  const std::unique_ptr<fence::PowerWatch> power_watch_;  // null: no fencer is bound
  fence::Brake brake_;
  SelfTest self_test_;
  fence::PeerLeaseReader peer_lease_reader_;
  fence::GuardedCall actions_;
  std::unique_ptr<port::Random> events_random_;
  kube::EventRecorder events_;
  std::unique_ptr<port::Random> election_random_;
  const std::string identity_;
  std::unique_ptr<port::Random> journal_random_;
  fence::Journal journal_;
  std::optional<kube::Elector> elector_;  // absent: --leader-elect=false
  std::unique_ptr<port::Random> pods_random_;
  fence::PodWatches pod_watches_;
  loop::TurnQueue looks_;
  fence::Preplannings preplannings_;
  fence::EvidencePublisher evidence_;
  std::unique_ptr<port::Random> incident_random_;
  fence::IncidentsBySignal incidents_;
  fence::TaintLifter taint_lifter_;
  fence::SilentTaints silent_taints_;
  NodeAudience audience_;
  cluster::NodeCache nodes_;
  fence::IdleNodes idle_nodes_;
  const std::unique_ptr<fence::FencerCheck> fencer_check_;  // null: no fencer is bound
  RemediationHost remediation_host_;
  std::unique_ptr<port::Random> remediation_random_;
  const std::unique_ptr<fence::Remediations> remediations_;  // null: nobody's wish is heard
  DisplayHost display_host_;
  std::unique_ptr<port::Random> display_random_;
  const std::unique_ptr<fence::IncidentDisplay> display_;  // null: nobody wants the objects
  std::unique_ptr<port::Random> webhook_random_;
  const std::unique_ptr<Webhook> webhook_;  // null: nobody outside is told
  std::unique_ptr<port::Random> traces_random_;
  const std::unique_ptr<Tracer> tracer_;  // null: nobody wants traces
  std::unique_ptr<port::Random> watch_random_;
  kube::Watcher node_watch_;
  std::unique_ptr<port::Random> policies_random_;
  std::optional<PolicyFeed> feed_;  // absent: --policy
  SituationTeller situation_;
  kube::Heartbeat heartbeat_;
  kube::ServerClock server_clock_;
  CallObservers observers_;
  Rewind rewind_;
  loop::Timer rewind_turn_;
  loop::Timer tick_;
  loop::Timer drain_deadline_;
  loop::Timer drain_poll_;
  bool says_the_rest_ = false;
  Moment say_until_{};
  loop::Timer yield_poll_;
  bool leads_ = false;              // or will as soon as a rewind was heeded
  Moment own_node_failed_until_{};  // by a health source's word, when we last led
  bool told_synced_ = false;
  bool knows_policies_ = false;
  std::set<NodeName> supposed_deleted_;      // that are asked about and do not exist
  std::optional<cluster::Census> supposed_;  // with the nodes that are only supposed to be down
  std::function<void()> left_;
};

Engine::Engine(Assignment assignment, const Surroundings& around)
    : graph_(std::make_unique<Graph>(std::move(assignment), around)) {}
Engine::~Engine() = default;

void Engine::start() {
  graph_->start();
}

void Engine::drain(std::function<void()> left) {
  graph_->drain(std::move(left));
}

Engine::Supposed Engine::suppose_fallen(const NodeName& name, bool although_up) {
  return graph_->suppose_fallen(name, although_up);
}

std::shared_ptr<const policy::PolicySet> Engine::policies() const {
  return graph_->policies();
}

Result<std::string> Engine::testify(std::string_view nonce, std::string_view nodes,
                                    Moment now) const {
  return graph_->testify(nonce, nodes, now);
}

kube::Caller& Engine::guests_caller() {
  return graph_->guests_caller();
}

Metrics& Engine::metrics() {
  return graph_->metrics();
}

Health& Engine::health() {
  return graph_->health();
}

}  // namespace moonfence::app
