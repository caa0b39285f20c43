#include "policy/bundle/reload.h"

#include <algorithm>
#include <utility>

#include "base/text.h"

namespace moonfence::policy {
namespace {

std::vector<std::string_view> views_of(const std::vector<std::string>& texts) {
  return {texts.begin(), texts.end()};
}

Rejection of_place(std::string stage, const BindingSpec& spec, const std::string& rule,
                   std::string hint) {
  return {.stage = std::move(stage),
          .line = 0,
          .message = spec.place + ".source: " + rule,
          .hint = std::move(hint),
          .may_be_guard = true};
}

// A run that has been replaced by newer ones for so long is not replaced any more.
constexpr Duration kPatienceForRuns = std::chrono::seconds(5);

// What these bindings leave of one; all of it where it is not known which of them it has become.
Reach reach_left(const BindingSpec& binding, const std::vector<BindingSpec>& bindings) {
  const BindingSpec* same_policy = nullptr;
  std::size_t count = 0;
  for (const BindingSpec& other : bindings) {
    if (other.is_same_place(binding)) {
      return other.reach();
    }
    if (other.is_same_kind(binding)) {
      same_policy = &other;
      ++count;
    }
  }
  if (count > 1) {
    return binding.reach();
  }
  return same_policy != nullptr ? same_policy->reach() : Reach();
}

}  // namespace

std::string Reloader::Sight::missing() const {
  if (!exists) {
    return "no ConfigMap";
  }
  const bool has_bindings =
      bundle.bindings || bundle.binary_keys.contains(std::string(kBindingsKey));
  return has_bindings ? "" : "no key moonfence.yaml";
}

bool Reloader::Sight::is_sound() const {
  return bindings && bindings->file && !bundle.fault;
}

std::string Reloader::Sight::fault() const {
  if (bundle.fault) {
    return bundle.fault->message();
  }
  return bindings && !bindings->file ? bindings->file.error().message() : "";
}

Reloader::Reloader(loop::Loop& loop, port::CpuClock& clock, Listener& listener, ReloadRules rules,
                   LastGood good)
    : loop_(loop),
      clock_(clock),
      listener_(listener),
      rules_(std::move(rules)),
      good_(std::move(good)),
      map_uid_(good_.map_uid) {
  for (const auto& [name, source] : rules_.builtins) {
    builtin_names_.insert(name);
  }
}

void Reloader::observe(const kube::ConfigMap* map, WallTime now) {
  const bool is_first = latest_ == nullptr;
  const bool exists = map != nullptr;
  if (!is_first && latest_->exists == exists &&
      (!exists ||
       (latest_->map_uid == map->uid && latest_->bundle.fingerprint == fingerprint_of(*map)))) {
    return;
  }
  if (exists && map->uid != map_uid_) {
    is_new_ = !is_first;
    good_ = is_first ? LastGood() : good_;
    map_uid_ = map->uid;
  }
  auto sight = std::make_shared<Sight>();
  sight->at = now;
  sight->exists = exists;
  if (exists) {
    sight->resource_version = map->resource_version.text();
    sight->map_uid = map->uid;
    sight->bundle = read_bundle(*map, builtin_names_);
    if (sight->bundle.bindings) {
      sight->bindings = parse_bindings(*sight->bundle.bindings, rules_.least_after);
    }
  }
  latest_ = sight;
  if (sight->bindings) {
    file_mode_ = lowest(file_mode_, sight->bindings->mode.value_or(Mode::Enforce));
  }
  const bool is_urgent = is_first || is_new_ || !sight->missing().empty();
  const bool is_narrowed = !is_urgent && narrow_to(*sight);
  const Moment last_call = first_change_.value_or(loop_.now()) + rules_.patience;
  first_change_ = first_change_.value_or(loop_.now());
  const Duration delay = std::min(rules_.quiet, last_call - loop_.now());
  quiet_timer_ = is_urgent ? loop_.in_next_turn([this] { on_quiet(); })
                           : loop_.after(std::max(delay, Duration(1)), [this] { on_quiet(); });
  const Ceiling wanted = ceiling_of(*sight);
  const bool is_lowered = !is_urgent && wanted.mode < ceiling_.mode;
  if (is_lowered) {
    ceiling_ = wanted;
  }
  if (is_lowered || is_narrowed) {
    urgent_timer_ = loop_.in_next_turn([this] { publish(); });
  }
}

void Reloader::on_quiet() {
  first_change_.reset();
  if (is_new_ || !latest_->missing().empty()) {
    clear_all();
  }
  if (!latest_->missing().empty()) {
    return;
  }
  if (run_ && loop_.now() - working_since_.value_or(loop_.now()) >= kPatienceForRuns) {
    return;  // edits that never pause must not keep all of them waiting; finish_run() comes back
  }
  if (latest_->is_sound()) {
    start_run(*latest_->bindings->file, "");
    return;
  }
  if (run_) {
    return;  // what is being taken up was sound; finish_run() comes back here
  }
  if (!has_read_bindings_ && !good_.bindings.empty()) {
    // Started into a faulty edit: what ran before is what the last good file bound. The engine's
    // configuration may demand more by now.
    if (auto good = parse_bindings(good_.bindings, kLeastOffAfter); good.file) {
      for (BindingSpec& spec : good.file->bindings) {
        Allowances& allow = spec.allow;
        allow.after =
            allow.act_on == ActOn::Down ? allow.after : std::max(allow.after, rules_.least_after);
      }
      file_mode_ = lowest(file_mode_, good.file->mode);
      start_run(*good.file, latest_->fault());
      return;
    }
  }
  current_ = latest_;
  ceiling_ = ceiling_of(*latest_);
  publish();
}

// The configuration was taken away: what it bound must not go on, nor come back with the next one.
void Reloader::clear_all() {
  run_.reset();
  working_since_.reset();
  validation_.reset();
  slice_timer_.cancel();
  entries_.clear();
  outcomes_.clear();
  has_read_bindings_ = false;
  is_new_ = false;
  file_mode_ = latest_->bindings ? latest_->bindings->mode.value_or(Mode::Enforce) : Mode::Enforce;
  current_ = latest_;
  ceiling_ = ceiling_of(*latest_);
  publish();
  keep({});
}

// What a sound file takes away from policies that are no guards needs no validation. A guard that
// is taken away leaves others free to act, so it stays until those are what the file says, too.
bool Reloader::narrow_to(const Sight& sight) {
  if (!sight.is_sound()) {
    return false;
  }
  const auto& bindings = sight.bindings->file->bindings;
  bool has_changed = false;
  for (Entry& entry : entries_) {
    if (entry.policy == nullptr || entry.policy->is_guard()) {
      continue;
    }
    const Reach reach = narrower(entry.reach, reach_left(entry.spec, bindings));
    has_changed = has_changed || reach != entry.reach;
    entry.reach = reach;
  }
  std::erase_if(entries_, [](const Entry& entry) {
    return entry.policy != nullptr && entry.reach.is_nowhere();
  });
  return has_changed;
}

// `fault`: why no binding of the file can be had as the ConfigMap has it; "" when they can.
void Reloader::start_run(const BindingsFile& file, const std::string& fault) {
  Run run{.sight = latest_, .entries = {}, .next = 0};
  for (const BindingSpec& spec : file.bindings) {
    Entry entry;
    entry.spec = spec;
    if (fault.empty()) {
      entry.wanted = wanted_by(entry, latest_->bundle);
    } else {
      entry.rejection = Rejection{.stage = "bindings", .message = fault, .may_be_guard = true};
    }
    run.entries.push_back(std::move(entry));
  }
  run_ = std::move(run);
  working_since_ = working_since_.value_or(loop_.now());
  if (outcomes_.size() > 4 * kMostPolicies) {
    outcomes_.clear();  // runs that never end leave theirs behind
  }
  // A validation that is under way goes on when the new run asks for the same.
  slice_timer_ = loop_.in_next_turn([this] { slice(); });
}

std::optional<Reloader::Attempt> Reloader::wanted_by(Entry& entry, const Bundle& bundle) const {
  const BindingSpec& spec = entry.spec;
  const auto files = bundle.policies.find(spec.policy);
  const bool has_files = files != bundle.policies.end();
  Attempt attempt{.candidate = {.name = spec.policy, .source = {}, .settings = spec.settings},
                  .key = {},
                  .source_name = spec.source,
                  .reach = spec.reach()};
  if (spec.source == kBuiltin) {
    const auto builtin = rules_.builtins.find(spec.policy);
    if (builtin == rules_.builtins.end()) {
      const std::vector<std::string> names(builtin_names_.begin(), builtin_names_.end());
      const std::string mine = spec.policy + ".lua";
      entry.rejection = of_place(
          "source", spec,
          "there is no built-in policy '" + spec.policy + "'" +
              did_you_mean(spec.policy, views_of(names)),
          has_files && files->second.source ? "the ConfigMap has one: write source: " + mine : "");
      return std::nullopt;
    }
    attempt.candidate.source = builtin->second;
  } else if (has_files && files->second.source) {
    attempt.candidate.source = *files->second.source;
  } else if (bundle.binary_keys.contains(spec.source)) {
    entry.rejection = of_place("source", spec, "'" + spec.source + "' is in binaryData",
                               "save the file as UTF-8 text and apply it again");
    return std::nullopt;
  } else {
    std::vector<std::string> keys;
    for (const auto& [name, each] : bundle.policies) {
      if (each.source) {
        keys.push_back(name + ".lua");
      }
    }
    entry.rejection = of_place("source", spec,
                               "'" + spec.source + "' is no key of the ConfigMap" +
                                   did_you_mean(spec.source, views_of(keys)),
                               "add the key, or remove the binding");
    return std::nullopt;
  }
  if (has_files && files->second.test) {
    attempt.candidate.test = files->second.test;
    attempt.candidate.fixtures = files->second.fixtures;
  }
  attempt.key = attempt.candidate.key();
  return attempt;
}

void Reloader::slice() {
  while (run_->next < run_->entries.size()) {
    if (!decide(run_->entries[run_->next])) {
      slice_timer_ = loop_.in_next_turn([this] { slice(); });
      return;
    }
    ++run_->next;
  }
  finish_run();
}

bool Reloader::decide(Entry& entry) {
  if (!entry.rejection) {
    const auto* outcome = outcome_of(*entry.wanted);
    if (outcome == nullptr) {
      return false;
    }
    if (const auto* accepted = std::get_if<Accepted>(outcome)) {
      entry.policy = accepted->policy;
      entry.reach = entry.spec.reach();
      entry.digest = accepted->policy->digest();
      entry.warnings = accepted->warnings;
      return true;
    }
    entry.rejection = std::get<Rejection>(*outcome);
    if (entry.rejection->stage == "settings") {
      entry.rejection->message.insert(0, entry.spec.place + ": ");
    }
  }
  if (!entry.substitute) {
    entry.substitute = last_good_for(entry.spec);
  }
  entry.reach = entry.spec.reach();
  entry.holds = entry.rejection->may_be_guard || is_guarding(entry.spec);
  if (!entry.substitute) {
    return true;
  }
  const auto* outcome = outcome_of(*entry.substitute);
  if (outcome == nullptr) {
    return false;
  }
  if (const auto* accepted = std::get_if<Accepted>(outcome)) {
    stand_in(entry, accepted->policy);
  } else {
    entry.holds = entry.holds || std::get<Rejection>(*outcome).may_be_guard;
  }
  return true;
}

// The last good policy in place of what was rejected, or what must be held when it cannot run.
void Reloader::stand_in(Entry& entry, const std::shared_ptr<const Policy>& policy) {
  const Reach& was = entry.substitute->reach;
  Reach guarding = more_protective(was, entry.reach);
  if (entry.spec.mode == Mode::Off) {
    guarding.mode = Mode::Off;  // the way to take a guard out
  }
  const bool is_kept = entry.spec.on_reject == BindingSpec::OnReject::Keep;
  const bool only_forbids = policy->is_guard() && !policy->can_act();
  const Reach reach = only_forbids ? guarding : narrower(was, entry.reach);
  if (is_kept && !reach.is_nowhere()) {
    entry.policy = policy;
    entry.digest = policy->digest();
    entry.is_stale = true;
    entry.holds = false;
    if (reach != entry.reach) {
      entry.warnings = {"the last good version runs in namespaces " + to_text(reach.scope) +
                        " in mode " + std::string(to_string(reach.mode)) +
                        ": what else the edit asks for waits until it is accepted"};
    }
    entry.reach = reach;
  } else if (policy->is_guard()) {
    entry.holds = true;
    entry.reach = guarding;
  }
}

// A guard runs under this binding's policy.
bool Reloader::is_guarding(const BindingSpec& spec) const {
  return std::any_of(entries_.begin(), entries_.end(), [&spec](const Entry& entry) {
    return entry.spec.policy == spec.policy && entry.policy != nullptr && entry.policy->is_guard();
  });
}

// Null when it needed a slice and is not known yet.
const Validation::Outcome* Reloader::outcome_of(const Attempt& attempt) {
  if (const auto known = outcomes_.find(attempt.key); known != outcomes_.end()) {
    return &known->second;
  }
  if (validation_ == nullptr || validation_key_ != attempt.key) {
    validation_ = std::make_unique<Validation>(attempt.candidate, rules_.validation, clock_);
    validation_key_ = attempt.key;
  }
  validation_->step();
  ++slices_;
  if (validation_->outcome()) {
    outcomes_.emplace(attempt.key, *validation_->outcome());
    validation_.reset();
  }
  return nullptr;
}

std::optional<Reloader::Attempt> Reloader::last_good_for(const BindingSpec& spec) const {
  const auto bound =
      std::count_if(run_->entries.begin(), run_->entries.end(),
                    [&spec](const Entry& other) { return other.spec.is_same_kind(spec); });
  const LastGoodEntry* good = good_.find(spec, bound == 1);
  if (good == nullptr) {
    return std::nullopt;
  }
  Attempt attempt{
      .candidate = {.name = good->policy, .source = good->source, .settings = good->settings},
      .key = {},
      .source_name = good->source_name,
      .reach = good->reach()};
  attempt.key = attempt.candidate.key();
  return attempt;
}

void Reloader::finish_run() {
  entries_ = std::move(run_->entries);
  current_ = run_->sight;
  run_.reset();
  working_since_.reset();
  forget_outcomes();
  ceiling_ = ceiling_of(*current_);
  if (current_->is_sound()) {
    has_read_bindings_ = true;
    const Mode mode = current_->bindings->file->mode;
    file_mode_ = current_ == latest_ ? mode : lowest(file_mode_, mode);
  }
  narrow_to(*latest_);
  if (const Ceiling newest = ceiling_of(*latest_); newest.mode < ceiling_.mode) {
    ceiling_ = newest;
  }
  publish();
  if (current_->is_sound()) {
    keep(make_last_good());
  }
  if (current_ != latest_ && !quiet_timer_.pending()) {
    on_quiet();
  }
}

// What was accepted with its tests is accepted without them: it may be needed as last good.
void Reloader::forget_outcomes() {
  std::map<std::string, Validation::Outcome> kept;
  const auto keep_one = [this, &kept](const std::string& key) {
    const auto known = outcomes_.find(key);
    if (known == outcomes_.end()) {
      return;
    }
    const auto* rejected = std::get_if<Rejection>(&known->second);
    if (rejected == nullptr || !rejected->may_differ) {
      kept.insert(*known);
    }
  };
  for (const Entry& entry : entries_) {
    if (entry.substitute) {
      keep_one(entry.substitute->key);
    }
    if (!entry.wanted) {
      continue;
    }
    keep_one(entry.wanted->key);
    if (entry.policy != nullptr && !entry.is_stale && entry.wanted->candidate.test) {
      Candidate bare = entry.wanted->candidate;
      bare.test.reset();
      bare.fixtures.clear();
      kept.emplace(bare.key(), Accepted{.policy = entry.policy, .warnings = {}});
    }
  }
  outcomes_ = std::move(kept);
}

void Reloader::keep(LastGood good) {
  if (good != good_) {
    good_ = std::move(good);
    listener_.persist(good_);
  }
}

void Reloader::publish() {
  urgent_timer_.cancel();
  auto set = std::make_shared<const PolicySet>(make_set());
  ReloadReport report = make_report(set->digest);
  keep_since(report, report_);
  report_ = std::move(report);
  const auto news = newsroom_.news_in(report_);
  if (active_digest_ != set->digest) {
    active_digest_ = set->digest;
    listener_.activate(std::move(set));
  }
  listener_.report(report_, news);
}

}  // namespace moonfence::policy
