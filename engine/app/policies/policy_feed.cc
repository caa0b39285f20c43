#include "app/policies/policy_feed.h"

#include <utility>

#include <nlohmann/json.hpp>

#include "app/policies/policy_changes.h"
#include "app/status/status_headline.h"

namespace moonfence::app {
namespace {

constexpr const char* kPolicies = "moonfence-policies";
constexpr const char* kStatus = "moonfence-status";
constexpr const char* kLastGood = "moonfence-lastgood";

kube::Labels own_labels() {
  return {{"app.kubernetes.io/managed-by", "moonfence"}};
}

bool is_unusable(const Error& error) {
  return error.kind == Error::Kind::Malformed || error.kind == Error::Kind::Limit ||
         error.kind == Error::Kind::Invalid;
}

kube::WatchTarget target_in(const Namespace& space) {
  return {.resource = "configmaps",
          .path = "/api/v1/namespaces/" + space.text() + "/configmaps",
          .field_selector = std::string("metadata.name=") + kPolicies,
          .label_selector = {},
          .read_live = true};
}

}  // namespace

PolicyFeed::PolicyFeed(Surroundings around, Namespace space, std::string instance,
                       policy::ReloadRules rules, Receivers receivers)
    : around_(around),
      space_(std::move(space)),
      instance_(std::move(instance)),
      rules_(std::move(rules)),
      receivers_(std::move(receivers)),
      config_maps_(around.caller),
      status_(around.loop, around.caller, around.random, around.log, {space_, kStatus},
              own_labels(), kube::ConfigMapKeeper::Writers::OnlyWe),
      last_good_(around.loop, around.caller, around.random, around.log, {space_, kLastGood},
                 own_labels(), kube::ConfigMapKeeper::Writers::Several),
      departed_(around.loop, around.caller, {space_, kStatus}, instance_,
                [this](const std::set<std::string>& keys) { forget(keys); }),
      watch_(around.loop, around.caller, around.random, around.log, target_in(space_), *this),
      namespaces_(around.loop, around.caller, [this] { show(); }) {}

PolicyFeed::~PolicyFeed() = default;

void PolicyFeed::start() {
  read_last_good();
}

void PolicyFeed::read_last_good() {
  call_ = config_maps_.get({space_, kLastGood}, [this](Result<kube::ConfigMap> map) {
    last_good_arrived(std::move(map));
  });
}

void PolicyFeed::last_good_arrived(Result<kube::ConfigMap> map) {
  call_.reset();
  if (!map && is_unusable(map.error())) {
    // It will not read better the next time, and an engine that never starts is worse than one that
    // does without.
    around_.log.error("last_good_unusable", {{"text", map.error().message()}});
  } else if (!map && map.error().kind != Error::Kind::NotFound) {
    not_ready_ = "the last good policies cannot be read: " + map.error().message();
    around_.log.warning("last_good_unread", {{"error", map.error().message()}});
    pause_ = around_.loop.after(
        backoff_.next(around_.loop.now(), around_.random.unit(), map.error().retry_after),
        [this] { read_last_good(); });
    return;
  }
  policy::LastGood good;
  if (map) {
    kept_ = std::move(map->data);
    policy::DecodedLastGood decoded = policy::decode_last_good(kept_);
    for (const std::string& fault : decoded.faults) {
      around_.log.warning("last_good_unusable", {{"text", fault}});
    }
    good = std::move(decoded.good);
  }
  not_ready_ = std::string("ConfigMap ") + kPolicies + " was not read yet";
  reloader_ = std::make_unique<policy::Reloader>(around_.loop, around_.cpu_clock, *this, rules_,
                                                 std::move(good));
  watch_.start();
  read_live();
}

void PolicyFeed::prove(std::weak_ptr<const void> alive, Proven done) {
  waiting_.push_back({.alive = std::move(alive), .done = std::move(done)});
  if (live_call_ == nullptr && asking_.empty()) {
    read_live();
  }
}

void PolicyFeed::begin_anew() {
  watch_.list_anew();
  status_.doubt();
  last_good_.doubt();
  if (reloader_ != nullptr) {
    prove(alive_, [](const Result<void>&) {});
  }
}

void PolicyFeed::read_live() {
  prove_timer_.cancel();
  asked_at_ = around_.loop.now();
  asking_ = std::exchange(waiting_, {});
  live_call_ = config_maps_.find(
      {space_, kPolicies},
      [this](Result<std::optional<kube::ConfigMap>> found) { live_arrived(std::move(found)); });
}

void PolicyFeed::live_arrived(Result<std::optional<kube::ConfigMap>> found) {
  live_call_.reset();
  const Result<void> outcome =
      found ? take_live(*std::move(found)) : Result<void>(failure(std::move(found.error())));
  if (outcome) {
    proven_at_ = asked_at_;
  }
  prove_timer_ = around_.loop.after(outcome ? kProveEvery : kProveAgain, [this] { read_live(); });
  // In the turn after the one in which a lower mode comes into force.
  answer_timer_ = around_.loop.in_next_turn([this, outcome] {
    answer_timer_ =
        around_.loop.in_next_turn([this, outcome] { answer(std::exchange(asking_, {}), outcome); });
  });
}

// Takes it up where it differs from what the watch has told.
Result<void> PolicyFeed::take_live(std::optional<kube::ConfigMap> found) {
  if (reloader_ == nullptr) {
    return failure(Error::Kind::Retryable, not_ready_);
  }
  const bool was_heard = watch_.health().synced;
  if (found && seen_ && found->uid == seen_->uid) {
    const auto order = kube::compare_versions(found->resource_version, seen_->resource_version);
    if (order && *order == std::strong_ordering::less) {
      watch_.list_anew();  // the store went back in time, or this answer is an old one
      return failure(Error::Kind::Retryable, "the server has an older ConfigMap " +
                                                 std::string(kPolicies) + " than before");
    }
    // A store that went back in time gives a version to another text, sooner or later.
    if (found->resource_version == seen_->resource_version && found->data == seen_->data) {
      return {};
    }
  } else if (!found && !seen_ && was_heard) {
    return {};
  }
  seen_ = std::move(found);
  undecodable_ = false;
  if (seen_) {
    last_uid_ = seen_->uid;
  }
  reloader_->observe(seen_ ? &*seen_ : nullptr, receivers_.now());
  return {};
}

void PolicyFeed::answer(const std::vector<Waiter>& waiters, const Result<void>& outcome) {
  const std::weak_ptr<const void> alive = alive_;
  for (const Waiter& waiter : waiters) {
    if (!waiter.alive.expired()) {
      waiter.done(outcome);
    }
    if (alive.expired()) {
      return;
    }
  }
  if (!waiting_.empty() && live_call_ == nullptr) {
    read_live();
  }
}

void PolicyFeed::on_init() {
  seen_.reset();
  undecodable_ = false;
}

void PolicyFeed::on_init_apply(const nlohmann::json& object) {
  see(object);
}

void PolicyFeed::on_init_done() {
  if (!undecodable_) {  // else nobody knows what it says: nothing changes
    reloader_->observe(seen_ ? &*seen_ : nullptr, receivers_.now());
  }
}

void PolicyFeed::on_apply(const nlohmann::json& object) {
  see(object);
  on_init_done();
}

void PolicyFeed::on_delete(const nlohmann::json& object) {
  const auto name = object.find("metadata");
  if (name != object.end() && name->is_object() && name->value("name", "") != kPolicies) {
    return;  // a server that ignores the field selector
  }
  if (seen_ && name != object.end() && name->is_object() &&
      name->value("uid", "") != seen_->uid.text()) {
    return;  // of one before it: a live read was faster than the watch
  }
  seen_.reset();
  undecodable_ = false;
  on_init_done();
}

void PolicyFeed::see(const nlohmann::json& object) {
  auto map = kube::decode_config_map(object);
  undecodable_ = !map;
  if (!map) {
    // No healthy server sends such a thing. It must not count as deleted, which would put
    // everything off and forget what was good.
    around_.log.error("policies_undecodable", {{"error", map.error().message()}});
    return;
  }
  if (map->ref.name != kPolicies) {
    return;  // a server that ignores the field selector
  }
  if (seen_ && seen_->uid == map->uid) {
    const auto order = kube::compare_versions(map->resource_version, seen_->resource_version);
    if (order && *order == std::strong_ordering::less) {
      return;  // a live read was faster than the watch
    }
  }
  last_uid_ = map->uid;
  seen_ = std::move(*map);
}

void PolicyFeed::activate(std::shared_ptr<const policy::PolicySet> set) {
  receivers_.activate(std::move(set));
}

void PolicyFeed::report(const policy::ReloadReport& report,
                        const std::vector<policy::ReloadNews>& news) {
  not_ready_.clear();
  const policy::ReloadReport before = std::exchange(report_, report);
  shown_ = as_known();
  // Metrics and log first: who reads the status finds them saying the same.
  receivers_.report(shown_, news);
  write_status();
  namespaces_.look_for(policy::namespaces_of(report));
  for (const policy::ReloadNews& item : news) {
    const bool rejected = item.kind != policy::ReloadNews::Kind::PolicyActivated;
    announce(rejected ? kube::EventNews::Type::Warning : kube::EventNews::Type::Normal,
             policy::to_string(item.kind), item.policy, item.text);
  }
  if (std::exchange(reported_, true)) {
    for (const PolicyChange& change : policy_changes(before, report)) {
      switch (change.kind) {
        case PolicyChange::Kind::Mode:
          announce(kube::EventNews::Type::Normal, "ModeChanged", change.policy, change.text);
          break;
        case PolicyChange::Kind::Unbound:
          announce(kube::EventNews::Type::Warning, "PolicyBindingRemoved", change.policy,
                   change.text);
          break;
        case PolicyChange::Kind::Faults:
          announce(kube::EventNews::Type::Warning, "ConfigurationRejected", change.policy,
                   change.text);
          break;
      }
    }
  }
}

void PolicyFeed::tell(nlohmann::ordered_json situation) {
  situation_ = std::move(situation);
  if (not_ready_.empty()) {  // else there is no report yet
    write_status();
  }
}

policy::ReloadReport PolicyFeed::as_known() const {
  policy::ReloadReport known = report_;
  policy::mark_failing(known, failing_);
  policy::mark_absent(known, namespaces_.absent());
  return known;
}

void PolicyFeed::tell_failing(std::set<std::string> names) {
  if (names != failing_) {
    failing_ = std::move(names);
    show();
  }
}

void PolicyFeed::show() {
  policy::ReloadReport known = as_known();
  if (known == shown_) {
    return;
  }
  const policy::ReloadReport before = std::exchange(shown_, std::move(known));
  if (receivers_.changed) {
    receivers_.changed(shown_);
  }
  write_status();
  announce_absent(before);
}

void PolicyFeed::announce_absent(const policy::ReloadReport& before) {
  std::set<Namespace> told;
  for (const policy::PolicyStatus& policy : before.policies) {
    told.insert(policy.absent.begin(), policy.absent.end());
  }
  for (const policy::PolicyStatus& policy : shown_.policies) {
    for (const Namespace& space : policy.absent) {
      if (!told.contains(space)) {
        announce(kube::EventNews::Type::Warning, "NamespaceAbsent", policy.name,
                 "policy " + policy.name + " is bound to namespace " + space.text() +
                     ", which does not exist");
      }
    }
  }
}

void PolicyFeed::tell_sources(const std::vector<fence::SourceState>& states) {
  std::set<std::pair<std::string, std::string>> told;
  for (const fence::SourceState& source : states) {
    for (const auto& [reason, text] :
         {std::pair("HealthSourceUnreadable", unreadable_text(source)),
          std::pair("HealthSourceNamesNoNode", strangers_text(source))}) {
      if (text.empty()) {
        continue;
      }
      const auto news = told.emplace(source.policy, reason);
      if (news.second && !told_sources_.contains(*news.first)) {
        announce(kube::EventNews::Type::Warning, reason, source.policy, text);
      }
    }
  }
  told_sources_ = std::move(told);
}

void PolicyFeed::write_status() {
  nlohmann::ordered_json status = policy::to_json(shown_);
  if (!situation_.is_null()) {
    status["situation"] = situation_;
  }
  status_.keep({{instance_, status.dump(1, ' ', false, nlohmann::json::error_handler_t::replace)}});
}

void PolicyFeed::forget(const std::set<std::string>& replicas) {
  kube::ConfigMapKeeper::Data gone;
  for (const std::string& key : replicas) {
    gone.emplace(key, std::nullopt);
  }
  status_.keep(gone);
}

void PolicyFeed::announce(kube::EventNews::Type type, std::string_view reason,
                          const std::string& policy, const std::string& text) {
  around_.events.record({.type = type,
                         .regarding = {.api_version = "v1",
                                       .kind = "ConfigMap",
                                       .space = space_,
                                       .name = kPolicies,
                                       .uid = last_uid_},
                         .action = "Reload",
                         .reason = std::string(reason),
                         .note = text,
                         .subject = policy + "\n" + text});
}

void PolicyFeed::persist(const policy::LastGood& good) {
  policy::ConfigMapData fresh = policy::encode_last_good(good);
  kube::ConfigMapKeeper::Data wanted(fresh.begin(), fresh.end());
  for (const auto& [key, text] : kept_) {
    wanted.try_emplace(key, std::nullopt);
  }
  last_good_.keep(wanted);
  kept_ = std::move(fresh);
}

}  // namespace moonfence::app
