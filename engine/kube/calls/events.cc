#include "kube/calls/events.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

#include <nlohmann/json.hpp>

#include "kube/text/json.h"
#include "kube/text/status.h"
#include "kube/wire/url.h"

namespace moonfence::kube {
namespace {

using nlohmann::json;

constexpr std::string_view kController = "moonfence.io/engine";
constexpr std::size_t kNoteLimit = 1024;
constexpr std::size_t kWordLimit = 128;  // reason, action, reportingInstance
constexpr std::size_t kNameLimit = 253;  // a DNS subdomain
constexpr int kMostTries = 12;
constexpr Duration kRetryDelay = std::chrono::seconds(10);
constexpr Duration kSeriesEnd = std::chrono::minutes(6);
constexpr std::size_t kMostSeries = 4096;
constexpr Duration kSweep = std::chrono::minutes(1);

// At most `limit` bytes and never half a character.
std::string cut(const std::string& text, std::size_t limit) {
  if (text.size() <= limit) {
    return text;
  }
  while (limit > 0 && (static_cast<unsigned char>(text[limit]) & 0xC0U) == 0x80U) {
    --limit;
  }
  return text.substr(0, limit);
}

// Object name, dot, nanoseconds in hex, as every event is named.
std::string event_name(const std::string& object, WallTime time) {
  std::array<char, 24> buffer{};
  const int length =
      std::snprintf(buffer.data(), buffer.size(), ".%llx",
                    static_cast<unsigned long long>(time.time_since_epoch().count()));
  const std::string suffix(buffer.data(), static_cast<std::size_t>(length));
  std::string name = cut(object, kNameLimit - suffix.size());
  while (!name.empty() && (name.back() == '.' || name.back() == '-')) {
    name.pop_back();  // a label may not end so
  }
  return name + suffix;
}

std::string space_of(const EventObject& object) {
  return object.space.empty() ? "default" : object.space.text();
}

json reference_to(const EventObject& object) {
  json reference = {{"apiVersion", object.api_version},
                    {"kind", object.kind},
                    {"name", object.name},
                    {"uid", object.uid.text()}};
  if (!object.space.empty()) {
    reference["namespace"] = object.space.text();
  }
  return reference;
}

std::string_view type_word(EventNews::Type type) {
  return type == EventNews::Type::Warning ? "Warning" : "Normal";
}

json event_of(const EventNews& news, const std::string& name, const std::string& time,
              const std::string& instance) {
  return {{"apiVersion", "events.k8s.io/v1"},
          {"kind", "Event"},
          {"metadata", {{"name", name}, {"namespace", space_of(news.regarding)}}},
          {"reason", cut(news.reason, kWordLimit)},
          {"type", type_word(news.type)},
          {"regarding", reference_to(news.regarding)},
          {"note", cut(news.note, kNoteLimit)},
          {"eventTime", time},
          {"reportingController", kController},
          {"reportingInstance", cut(instance, kWordLimit)},
          {"action", cut(news.action, kWordLimit)}};
}

ApiRequest request_about(const EventNews& news) {
  ApiRequest request;
  request.method = port::Method::Post;
  request.path =
      "/apis/events.k8s.io/v1/namespaces/" + percent_encoded(space_of(news.regarding)) + "/events";
  request.query = {{"fieldManager", "moonfence"}, {"fieldValidation", "Strict"}};
  request.content_type = "application/json";
  return request;
}

}  // namespace

ApiRequest event_request(const EventNews& news, WallTime time, const std::string& instance) {
  ApiRequest request = request_about(news);
  request.body = to_text(
      event_of(news, event_name(news.regarding.name, time), format_rfc3339_micro(time), instance));
  return request;
}

EventRecorder::EventRecorder(loop::Loop& loop, Caller& caller, port::WallClock& clock,
                             port::Random& random, port::Log& log, const std::string& instance)
    : loop_(loop),
      caller_(caller),
      clock_(clock),
      random_(random),
      log_(log),
      instance_(cut(instance, kWordLimit)) {}

WallTime EventRecorder::stamp() {
  // Names differ even when the clock stands still.
  last_stamp_ = std::max(clock_.now(), last_stamp_ + std::chrono::nanoseconds(1));
  return last_stamp_;
}

void EventRecorder::record(const EventNews& news) {
  sweep();
  const Moment now = loop_.now();
  const WallTime time = stamp();
  const Key key{news.type, news.action, news.reason, news.regarding, news.subject};
  if (const auto known = series_.find(key); known != series_.end()) {
    Series& series = known->second;
    series.last = now;
    if (++series.count == 2) {
      series.told = 2;
      series.told_at = now;
      enqueue(Pending{.news = news, .name = series.name, .time = time, .count = 2});
    } else if (now - series.told_at >= kHeartbeat) {
      tell_count(key, series, time);
    }
    return;
  }
  if (!may_tell(news)) {
    ++dropped_;
    return;
  }
  const std::string name = event_name(news.regarding.name, time);
  if (series_.size() < kMostSeries) {
    series_.emplace(key, Series{.name = name, .last = now, .told_at = now});
  }
  enqueue(Pending{.news = news, .name = name, .time = time});
}

bool EventRecorder::may_tell(const EventNews& news) {
  const std::pair key(news.regarding, news.is_weighty());
  if (told_of_.size() >= kMostSeries && !told_of_.contains(key)) {
    return true;  // the limit over all of them holds
  }
  return told_of_.try_emplace(key, kObjectBurst, kObjectPace).first->second.take(loop_.now());
}

void EventRecorder::tell_count(const Key& key, Series& series, WallTime time) {
  series.told = series.count;
  series.told_at = loop_.now();
  enqueue(Pending{.news = {.type = std::get<0>(key),
                           .regarding = std::get<3>(key),
                           .action = std::get<1>(key),
                           .reason = std::get<2>(key),
                           .note = {}},
                  .name = series.name,
                  .time = time,
                  .count = series.count,
                  .only_count = true});
}

// Ends what was silent for long. Runs with every event and, while there is anything to end, once a
// minute.
void EventRecorder::sweep() {
  const Moment now = loop_.now();
  for (auto entry = series_.begin(); entry != series_.end();) {
    Series& series = entry->second;
    if (now - series.last <= kSeriesEnd) {
      ++entry;
      continue;
    }
    if (series.count > series.told) {
      tell_count(entry->first, series, stamp());
    }
    entry = series_.erase(entry);
  }
  std::erase_if(told_of_, [now](const auto& entry) { return entry.second.is_full(now); });
  sweep_timer_ = loop_.after(kSweep, [this] {
    if (!series_.empty() || !told_of_.empty()) {
      sweep();
    }
  });
}

void EventRecorder::enqueue(Pending pending) {
  if (queue_.size() >= kQueueLimit) {
    ++dropped_;
    if (!make_room_for(pending)) {
      return;
    }
  }
  queue_.push_back(std::move(pending));
  if (!sending_) {
    // What is told first is what has just begun: its own requests go first.
    sending_ = true;
    retry_timer_ = loop_.after(kPause, [this] { send_next(); });
  }
}

// The newest: what comes before it is the longer part of the story. Never the first, which may be
// on its way.
bool EventRecorder::make_room_for(const Pending& pending) {
  if (!pending.is_weighty()) {
    return false;
  }
  for (std::size_t i = queue_.size() - 1; i > 0; --i) {
    if (!queue_[i].is_weighty()) {
      queue_.erase(queue_.begin() + static_cast<std::ptrdiff_t>(i));
      return true;
    }
  }
  return false;
}

void EventRecorder::send_next() {
  sending_ = !queue_.empty();
  if (sending_ && busy_ && busy_()) {
    retry_timer_ = loop_.after(kPause, [this] { send_next(); });
    return;
  }
  if (const Duration wait = all_.wait(loop_.now()); sending_ && wait > Duration::zero()) {
    retry_timer_ = loop_.after(wait, [this] { send_next(); });
    return;
  }
  if (sending_) {
    all_.take(loop_.now());
    ++queue_.front().tries;
    call_ = caller_.call(request_for(queue_.front()),
                         [this](const Result<ApiReply>& reply) { on_outcome(reply); });
  }
}

void EventRecorder::on_outcome(const Result<ApiReply>& reply) {
  Pending& sent = queue_.front();
  if (!reply) {
    const Error& error = reply.error();
    if (error.kind == Error::Kind::NotFound && sent.count > 1 && !sent.only_count) {
      sent.count = 1;  // the first event has expired: tell the news as a new one
      send_next();
      return;
    }
    // A fixed name makes repeats of a lost create harmless: it then exists already.
    const bool worth_another = error.kind == Error::Kind::Retryable ||
                               error.kind == Error::Kind::Unknown ||
                               error.kind == Error::Kind::Unauthorized;
    if (worth_another && sent.tries < kMostTries) {
      const double share = 0.5 + random_.unit();  // replicas must not return in step
      const Duration delay(
          static_cast<Duration::rep>(static_cast<double>(kRetryDelay.count()) * share));
      retry_timer_ = loop_.after(std::max(delay, error.retry_after.value_or(Duration::zero())),
                                 [this] { send_next(); });
      return;
    }
    const bool expired = sent.only_count && error.kind == Error::Kind::NotFound;
    if (error.reason != "AlreadyExists" && !expired) {
      ++dropped_;
      log_.debug("event_dropped", {{"reason", sent.news.reason}, {"text", error.text}});
    }
  }
  queue_.pop_front();
  send_next();
}

ApiRequest EventRecorder::request_for(const Pending& pending) const {
  const EventNews& news = pending.news;
  const std::string time = format_rfc3339_micro(pending.time);
  ApiRequest request = request_about(news);
  json body;
  if (pending.count > 1) {
    request.method = port::Method::Patch;
    request.path += "/" + percent_encoded(pending.name);
    request.content_type = "application/merge-patch+json";
    body["series"] = {{"count", pending.count}, {"lastObservedTime", time}};
  } else {
    body = event_of(news, pending.name, time, instance_);
  }
  request.body = to_text(body);
  return request;
}

}  // namespace moonfence::kube
