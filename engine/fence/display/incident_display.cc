#include "fence/display/incident_display.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "kube/text/json.h"
#include "kube/wire/url.h"

namespace moonfence::fence {
namespace {

using nlohmann::json;

constexpr const char* kRights = "kubectl apply -k deploy/rights/incidents";

bool differs_in_text_only(const std::optional<ShownStand>& a, const std::optional<ShownStand>& b) {
  if (!a || !b) {
    return false;
  }
  ShownStand other = *b;
  other.text = a->text;
  return *a == other;
}

}  // namespace

IncidentDisplay::IncidentDisplay(const Surroundings& around, Namespace space, Host& host)
    : around_(around), space_(std::move(space)), host_(host) {}

void IncidentDisplay::lead() {
  step_down();
  leads_ = true;
  next_later(kGiveWay);
}

void IncidentDisplay::step_down() {
  leads_ = false;
  is_installed_ = false;
  next_.cancel();
  call_.reset();
  current_ = {};
  entries_.clear();
  problem_.clear();
  told_.reset();
  not_before_ = {};
}

void IncidentDisplay::stands(const IncidentRecord& record, const Uid& config_map) {
  if (!leads_) {
    return;
  }
  ShownRecord shown = shown_of(record, config_map);
  const auto [found, is_new] = entries_.try_emplace(record.id);
  Entry& entry = found->second;
  if (is_new) {
    entry.record = std::move(shown);
    entry.due = around_.loop.now();
    entry.past = entry.record.closed.has_value();
  } else if (entry.record != shown) {
    const bool ends = entry.record.closed.has_value() != shown.closed.has_value();
    hurry(entry, ends ? Duration::zero() : kWriteEvery);
    entry.past = false;
    entry.seen = entry.seen && entry.record.record == shown.record;
    entry.record = std::move(shown);
  }
}

void IncidentDisplay::removed(const IncidentId& id) {
  entries_.erase(id);
  quiet(id);
}

void IncidentDisplay::look() {
  if (!leads_) {
    return;
  }
  std::map<IncidentId, IncidentStatus> open;
  for (IncidentStatus& each : host_.incidents()) {
    open.insert_or_assign(each.incident, std::move(each));
  }
  const std::map<IncidentId, JudgedPods> judged = host_.judged();
  for (auto& [id, entry] : entries_) {
    const auto status = open.find(id);
    const auto pods = judged.find(id);
    follow(entry, status == open.end() ? nullptr : &status->second,
           pods == judged.end() ? nullptr : &pods->second);
  }
  if (call_ == nullptr && !next_.pending()) {
    next_later(Duration::zero());
  }
}

void IncidentDisplay::follow(Entry& entry, const IncidentStatus* status,
                             const JudgedPods* pods) const {
  std::optional<ShownStand> stand;
  const bool is_open = !entry.record.closed && status != nullptr;
  entry.trouble.follow(is_open ? std::optional(status->state) : std::nullopt,
                       entry.record.closed.has_value(), around_.loop.now());
  if (is_open) {
    stand = {.state = status->state,
             .reason = status->reason,
             .text = status->text,
             .stalled = entry.trouble.is_stalled(around_.loop.now()),
             .pods = pods == nullptr ? std::nullopt : std::optional(*pods)};
  }
  if (stand != entry.stand && !entry.record.closed) {
    hurry(entry, differs_in_text_only(stand, entry.stand) ? kTextEvery : kWriteEvery);
  }
  entry.stand = std::move(stand);
}

// Due so long after it was last written.
void IncidentDisplay::hurry(Entry& entry, Duration after_the_last) const {
  const Moment now = around_.loop.now();
  entry.wanted = std::min(entry.wanted, after_the_last);
  entry.due = std::min(entry.due, entry.written ? *entry.written + after_the_last : now);
}

// What was sent is not waited for: it is read before anything more is written.
void IncidentDisplay::give_way() {
  if (leads_) {
    if (Entry* entry = current()) {
      entry->due = around_.loop.now();
    }
    call_.reset();
    next_later(std::max(kGiveWay, not_before_ - around_.loop.now()));
  }
}

// What was read is not written meanwhile, for calls that act are under way.
bool IncidentDisplay::waits(Entry& entry) {
  if (!host_.is_acting()) {
    return false;
  }
  entry.due = around_.loop.now();
  next_later(kGiveWay);
  call_.reset();
  return true;
}

bool IncidentDisplay::may_write(Moment now) const {
  const auto until = around_.leadership.acts_until();
  return until && now <= *until - around_.leadership.limits().action_span();
}

void IncidentDisplay::send(kube::ApiRequest request, Answered answered) {
  request.lane = port::Lane::Bulk;
  request.timeout = std::min(kTimeout, around_.leadership.limits().call);
  request.observed = false;  // what becomes of it says nothing of the server's health
  request.may_send = [this] { return may_write(around_.loop.live_now()); };
  call_ = around_.caller.call(std::move(request), std::move(answered));
}

void IncidentDisplay::next_later(Duration pause) {
  next_ = around_.loop.after(pause, [this] { next(); });
}

// Nothing at all is asked until then.
void IncidentDisplay::pause(Duration duration) {
  not_before_ = around_.loop.now() + duration;
  next_later(duration);
}

void IncidentDisplay::next() {
  if (!leads_ || call_ != nullptr) {
    return;
  }
  if (host_.is_acting()) {
    next_later(kGiveWay);
    return;
  }
  if (!is_installed_) {
    probe();
    return;
  }
  if (const auto due = first_due(); due != entries_.end()) {
    read(due->first);
  }
}

// Of the open ones and those that have just ended the one that waits longest, then of the others.
IncidentDisplay::Entries::iterator IncidentDisplay::first_due() {
  const Moment now = around_.loop.now();
  const auto place_of = [now](const Entry& entry) {
    const Moment time = std::max(entry.due, entry.not_before);
    return std::tuple(time > now, entry.past, time);
  };
  const auto first =
      std::min_element(entries_.begin(), entries_.end(), [&place_of](const auto& a, const auto& b) {
        return place_of(a.second) < place_of(b.second);
      });
  const bool is_due = first != entries_.end() && !std::get<0>(place_of(first->second));
  return is_due ? first : entries_.end();
}

void IncidentDisplay::probe() {
  const auto path = kube::objects_path(kIncidentApi, kIncidentResource, space_);
  if (!path) {
    not_there(path.error());
    return;
  }
  current_ = {};
  kube::ApiRequest request;
  request.path = *path;
  request.query = {{"limit", "1"}};
  send(std::move(request), [this](const auto& reply) { probed(reply); });
}

void IncidentDisplay::probed(const Result<kube::ApiReply>& reply) {
  if (!reply) {
    not_there(reply.error());
    return;
  }
  is_installed_ = true;
  quiet({});
  for (auto& [id, entry] : entries_) {
    entry.due = around_.loop.now();
    entry.seen = false;  // the objects went with their kind
  }
  done();
}

void IncidentDisplay::not_there(const Error& error) {
  is_installed_ = false;
  const bool is_missing = error.http_status == 404;
  if (!is_missing && error.kind != Error::Kind::Forbidden) {
    tell({}, Error{.kind = error.kind, .text = "FencingIncident objects: " + error.message()});
    pause(backoff_.next(around_.loop.now(), around_.random.unit(), error.retry_after));
  } else {
    tell({}, Error{.kind = error.kind,
                   .text = is_missing ? "the kind FencingIncident is not installed"
                                      : "moonfence may not read FencingIncident objects",
                   .hint = kRights});
    pause(kProbeEvery);
  }
  call_.reset();
}

IncidentDisplay::Entry* IncidentDisplay::current() {
  const auto found = entries_.find(current_);
  return call_ == nullptr || found == entries_.end() ? nullptr : &found->second;
}

void IncidentDisplay::read(const IncidentId& id) {
  current_ = id;
  const auto path = kube::object_path(kIncidentApi, kIncidentResource, space_, name_of(id));
  if (!path) {  // its ConfigMap could not have that name either
    entries_.erase(id);
    next_later(kPace);
    return;
  }
  path_ = *path;
  kube::ApiRequest request;
  request.path = path_;
  send(std::move(request), [this](const auto& reply) { arrived(reply); });
}

void IncidentDisplay::arrived(const Result<kube::ApiReply>& reply) {
  Entry* entry = current();
  if (entry == nullptr) {
    done();
  } else if (reply) {
    compare(*entry, reply->body);
  } else if (reply.error().kind == Error::Kind::NotFound && entry->seen) {
    entry->due = Moment::max();  // somebody removed it, or it went with its owner
    entry->wanted = Duration::max();
    shown(*entry);
  } else if (reply.error().kind == Error::Kind::NotFound) {
    create(*entry);
  } else {
    failed(reply.error());
  }
}

void IncidentDisplay::create(Entry& entry) {
  if (waits(entry)) {
    return;
  }
  kube::ApiRequest request;
  request.method = port::Method::Post;
  request.path = path_.substr(0, path_.rfind('/'));
  request.body = new_object(entry.record, space_);
  request.content_type = "application/json";
  send(std::move(request), [this](const auto& reply) {
    Entry* made = current();
    if (made == nullptr) {
      done();
    } else if (reply) {
      compare(*made, reply->body);
    } else {
      failed(reply.error());
    }
  });
}

void IncidentDisplay::compare(Entry& entry, const json& object) {
  if (!is_of(object, entry.record)) {
    const std::string name = name_of(current_);
    tell(current_, Error{.kind = Error::Kind::Conflict,
                         .text = "FencingIncident " + name + " does not belong to the ConfigMap " +
                                 name + " that stands there, and is left alone",
                         .hint = "see who made it, then: kubectl -n " + space_.text() +
                                 " delete fencingincident " + name});
    put_off(kProbeEvery);
    done();
    return;
  }
  entry.seen = true;
  entry.due = Moment::max();  // what changes from now on is written next
  entry.wanted = Duration::max();
  auto change = status_change(object, status_of(entry.record, entry.stand, object, host_.now()));
  if (change) {
    patch(entry, *std::move(change));
  } else {
    shown(entry);
  }
}

void IncidentDisplay::patch(Entry& about, std::string body) {
  if (waits(about)) {
    return;
  }
  kube::ApiRequest request;
  request.method = port::Method::Patch;
  request.path = path_ + "/status";
  request.body = std::move(body);
  request.content_type = "application/json-patch+json";
  send(std::move(request), [this](const auto& reply) {
    Entry* entry = current();
    if (entry == nullptr) {
      done();
    } else if (reply) {
      shown(*entry);
    } else if (reply.error().http_status == 422 && entry->pause == Duration::zero()) {
      put_off(kPause);  // somebody was faster, so it is another version; told when it goes on
      done();
    } else {
      failed(reply.error());
    }
  });
}

void IncidentDisplay::shown(Entry& entry) {
  const Moment now = around_.loop.now();
  if (entry.wanted != Duration::max()) {
    entry.due = now + entry.wanted;
  } else if (!entry.record.closed || !entry.past) {
    entry.due = now + kVerifyEvery;  // an end once: a write that was given up may have come late
    entry.past = entry.record.closed.has_value();
  }
  entry.written = now;
  entry.pause = Duration::zero();
  backoff_.forget();
  quiet(current_);
  done();
}

void IncidentDisplay::failed(const Error& error) {
  const bool has_no_kind = error.http_status == 404 && error.kind != Error::Kind::NotFound;
  if (has_no_kind) {
    put_off(kPause);
    not_there(error);
    return;
  }
  switch (error.kind) {
    case Error::Kind::Conflict:   // somebody was faster
    case Error::Kind::Cancelled:  // we do not lead any more
    case Error::Kind::NotFound:
    case Error::Kind::Gone:
      put_off(kPause);
      done();
      return;
    case Error::Kind::Invalid:
    case Error::Kind::Malformed:
    case Error::Kind::Limit:
      put_off(kPause);
      tell(current_, error);
      done();
      return;
    case Error::Kind::Forbidden:  // of all, or of this one by a webhook
    case Error::Kind::Retryable:
    case Error::Kind::Unauthorized:
    case Error::Kind::Unknown:
      put_off(kPause);
      tell(current_, error);
      pause(backoff_.next(around_.loop.now(), around_.random.unit(), error.retry_after));
      call_.reset();
      return;
  }
}

// The one under way.
void IncidentDisplay::put_off(Duration at_least) {
  if (Entry* entry = current()) {
    const Moment now = around_.loop.now();
    entry->pause = std::max(std::min(entry->pause * 2, kLongest), at_least);
    entry->not_before = now + entry->pause;
    entry->due = now;
  }
}

void IncidentDisplay::done() {
  next_later(kPace);
  call_.reset();  // last: it may be what called us
}

// "": of all of them.
void IncidentDisplay::tell(const IncidentId& about, const Error& error) {
  const auto found = entries_.find(about);
  if (!about.empty() && found == entries_.end()) {
    return;
  }
  std::string& problem = about.empty() ? problem_ : found->second.problem;
  problem = (about.empty() ? "" : "FencingIncident " + name_of(about) + ": ") + error.message();
  if (std::exchange(told_, error.kind) != error.kind) {
    around_.log.warning("incident_not_shown", {{"text", problem}});
  }
}

void IncidentDisplay::quiet(const IncidentId& about) {
  if (const auto found = entries_.find(about); found != entries_.end()) {
    found->second.problem.clear();
  } else if (about.empty()) {
    problem_.clear();
  }
  if (problem().empty()) {
    told_.reset();
  }
}

std::string IncidentDisplay::problem() const {
  const auto first = std::find_if(entries_.begin(), entries_.end(),
                                  [](const auto& each) { return !each.second.problem.empty(); });
  return !problem_.empty() || first == entries_.end() ? problem_ : first->second.problem;
}

}  // namespace moonfence::fence
