#include "os/net/curl_http.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "base/check.h"
#include "os/net/exchange.h"

namespace moonfence::os {
namespace {

constexpr std::size_t kSpareHandles = 128;
// libcurl 7.88 sets itself no timer when the first of several addresses of a name has failed: who
// runs it for sockets and timers alone never sees the second one tried.
constexpr Duration kNudge = std::chrono::milliseconds(50);

std::size_t index_of(port::Lane lane) {
  return static_cast<std::size_t>(lane);
}

}  // namespace

// Exchanges are found by number: a handle, a queue or a deadline never points at one that is gone.
class CurlHttp::Engine final : public CurlPoller::Client {
 public:
  Engine(CurlPoller& poller, HttpLimits limits) : poller_(poller), limits_(limits) {
    lanes_[index_of(port::Lane::Writes)].bound = limits.writes;
    lanes_[index_of(port::Lane::Bulk)].bound = limits.bulk;
    lanes_[index_of(port::Lane::Endpoints)].bound = limits.endpoints;
    lanes_[index_of(port::Lane::Guests)].bound = limits.guests;
    // A burst of deletions opens dozens of connections: resumed TLS sessions spare the server a
    // signature each. libcurl resumes only under the same trust and the same client certificate.
    MOONFENCE_CHECK(sessions_ != nullptr);
    curl_share_setopt(sessions_, CURLSHOPT_SHARE, CURL_LOCK_DATA_SSL_SESSION);
    poller_.attach(this);
  }
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  ~Engine() override;

  std::unique_ptr<port::Transfer> start(port::HttpRequest request, port::HttpSink& sink);
  void use_tls(port::TlsSettings settings) { tls_ = std::move(settings); }
  void drop_connections();

  std::optional<Duration> before_wait() override;
  void deliver() override;

  [[nodiscard]] std::size_t running(port::Lane lane) const {
    return lanes_[index_of(lane)].running;
  }
  [[nodiscard]] std::size_t queued(port::Lane lane) const {
    return lanes_[index_of(lane)].queue.size();
  }

 private:
  using Id = std::uint64_t;
  using State = Exchange::State;
  struct LaneState {
    std::size_t bound = std::numeric_limits<std::size_t>::max();
    std::size_t running = 0;
    std::deque<Id> queue;
  };
  class Handle;

  [[nodiscard]] Exchange* find(Id id) {
    const auto found = exchanges_.find(id);
    return found == exchanges_.end() ? nullptr : found->second.get();
  }
  [[nodiscard]] LaneState& lane_of(const Exchange& exchange) {
    return lanes_[index_of(exchange.request.lane)];
  }
  template <class Predicate>
  [[nodiscard]] std::vector<Id> matching(Predicate predicate) const;

  void cancel(Id id);
  void launch_queued();
  void launch(Id id, Exchange& exchange);
  enum class Run { WhatIsReady, WhatWasBegun, Everything };
  [[nodiscard]] bool is_connecting() const;
  void run_curl(Run what);
  void reap();
  void expire();
  void finish(Id id, Exchange& exchange, std::optional<Error> error);
  void leave_lane(Id id, Exchange& exchange, bool completed);
  void put_away(Exchange& exchange, bool completed);
  void forget_deadline(Id id, const Exchange& exchange);
  void deliver_input(Id id);
  void deliver_end(Id id);

  CurlPoller& poller_;
  HttpLimits limits_;
  port::TlsSettings tls_;
  std::array<LaneState, port::kLanes> lanes_;
  std::map<Id, std::unique_ptr<Exchange>> exchanges_;
  std::set<std::pair<Moment, Id>> deadlines_;
  CURLSH* sessions_ = curl_share_init();
  std::vector<CURL*> spare_;
  std::vector<Id> abandoned_;
  Id next_id_ = 1;
  Moment nudge_{};  // when all are run next, while some are connecting
  bool inside_curl_ = false;
  bool fresh_ = false;         // handles that libcurl has not been run for yet
  bool drop_pending_ = false;  // drop_connections() was called inside libcurl
};

class CurlHttp::Engine::Handle final : public port::Transfer {
 public:
  Handle(Engine& engine, Id id) : engine_(engine), id_(id) {}
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() override { engine_.cancel(id_); }

 private:
  Engine& engine_;
  Id id_;
};

CurlHttp::Engine::~Engine() {
  for (const auto& [id, exchange] : exchanges_) {
    if (exchange->state == State::Running) {
      put_away(*exchange, /*completed=*/false);
    }
  }
  for (CURL* easy : spare_) {
    curl_easy_cleanup(easy);
  }
  curl_share_cleanup(sessions_);
  poller_.attach(nullptr);
}

template <class Predicate>
std::vector<CurlHttp::Engine::Id> CurlHttp::Engine::matching(Predicate predicate) const {
  std::vector<Id> ids;
  for (const auto& [id, exchange] : exchanges_) {
    if (predicate(*exchange)) {
      ids.push_back(id);
    }
  }
  return ids;
}

std::unique_ptr<port::Transfer> CurlHttp::Engine::start(port::HttpRequest request,
                                                        port::HttpSink& sink) {
  const Id id = next_id_++;
  auto exchange = std::make_unique<Exchange>();
  exchange->request = std::move(request);
  exchange->sink = &sink;
  exchange->id = id;
  if (exchange->request.timeout > Duration::zero()) {
    exchange->deadline = poller_.now() + exchange->request.timeout;
    deadlines_.emplace(*exchange->deadline, id);
  }
  lane_of(*exchange).queue.push_back(id);
  exchanges_.emplace(id, std::move(exchange));
  launch_queued();
  if (fresh_ && !inside_curl_) {
    run_curl(Run::WhatWasBegun);  // the rest of a long turn need not be waited for
  }
  return std::make_unique<Handle>(*this, id);
}

void CurlHttp::Engine::cancel(Id id) {
  Exchange* exchange = find(id);
  if (exchange == nullptr) {
    return;
  }
  if (inside_curl_ && exchange->state == State::Running) {
    exchange->abandoned = true;  // libcurl still uses the handle; run_curl() takes it out
    abandoned_.push_back(id);
    return;
  }
  forget_deadline(id, *exchange);
  leave_lane(id, *exchange, /*completed=*/false);
  exchanges_.erase(id);
  launch_queued();
}

void CurlHttp::Engine::launch_queued() {
  if (inside_curl_) {
    return;  // libcurl forbids adding handles inside its callbacks; run_curl() does it
  }
  for (LaneState& lane : lanes_) {
    while (!lane.queue.empty() && lane.running < lane.bound) {
      const Id id = lane.queue.front();
      lane.queue.pop_front();
      launch(id, *exchanges_.at(id));
    }
  }
}

void CurlHttp::Engine::launch(Id id, Exchange& exchange) {
  if (spare_.empty()) {
    exchange.easy = curl_easy_init();
    MOONFENCE_CHECK(exchange.easy != nullptr);
    curl_easy_setopt(exchange.easy, CURLOPT_SHARE, sessions_);  // outlives curl_easy_reset()
  } else {
    exchange.easy = spare_.back();
    spare_.pop_back();
  }
  exchange.state = State::Running;
  ++lane_of(exchange).running;
  if (auto error = configure(exchange, exchange.request.tls ? *exchange.request.tls : tls_, limits_,
                             poller_.sockets())) {
    finish(id, exchange, std::move(error));
    return;
  }
  MOONFENCE_CHECK(curl_multi_add_handle(poller_.multi(), exchange.easy) == CURLM_OK);
  fresh_ = true;
}

// Takes the exchange out of its lane, whatever it was doing there.
void CurlHttp::Engine::leave_lane(Id id, Exchange& exchange, bool completed) {
  LaneState& lane = lane_of(exchange);
  switch (exchange.state) {
    case State::Queued:
      std::erase(lane.queue, id);
      break;
    case State::Running:
      put_away(exchange, completed);
      --lane.running;
      break;
    case State::Over:
      break;
  }
  exchange.state = State::Over;
}

// Only a handle whose exchange went well is used again: one whose name was not resolved keeps its
// receive buffer even over curl_easy_reset(), and then refuses CURLOPT_BUFFERSIZE for ever (7.88).
void CurlHttp::Engine::put_away(Exchange& exchange, bool completed) {
  CURL* easy = std::exchange(exchange.easy, nullptr);
  // Closes the connection when the answer is not complete, and pools it when it is.
  curl_multi_remove_handle(poller_.multi(), easy);
  curl_easy_reset(easy);
  exchange.free_lists();
  if (completed && spare_.size() < kSpareHandles) {
    spare_.push_back(easy);
  } else {
    curl_easy_cleanup(easy);
  }
}

void CurlHttp::Engine::forget_deadline(Id id, const Exchange& exchange) {
  if (exchange.deadline) {
    deadlines_.erase({*exchange.deadline, id});
  }
}

void CurlHttp::Engine::finish(Id id, Exchange& exchange, std::optional<Error> error) {
  forget_deadline(id, exchange);
  leave_lane(id, exchange, /*completed=*/!error);
  exchange.end.error = std::move(error);
}

void CurlHttp::Engine::run_curl(Run what) {
  fresh_ = false;
  inside_curl_ = true;
  switch (what) {
    case Run::WhatIsReady:
      poller_.drive();
      break;
    case Run::WhatWasBegun:
      poller_.drive_due();
      break;
    case Run::Everything:
      poller_.drive_all();
      break;
  }
  inside_curl_ = false;
  reap();
  if (drop_pending_) {
    drop_connections();
  }
  for (const Id id : std::exchange(abandoned_, {})) {
    cancel(id);
  }
  launch_queued();
}

void CurlHttp::Engine::reap() {
  int left = 0;
  while (const CURLMsg* message = curl_multi_info_read(poller_.multi(), &left)) {
    if (message->msg != CURLMSG_DONE) {
      continue;
    }
    const CURLcode code = message->data.result;
    void* owner = nullptr;
    curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &owner);
    MOONFENCE_CHECK(owner != nullptr);
    Exchange& exchange = *static_cast<Exchange*>(owner);
    finish(exchange.id, exchange, outcome_of(exchange, code, limits_));
  }
}

void CurlHttp::Engine::expire() {
  const Moment now = poller_.now();
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    const Id id = deadlines_.begin()->second;
    Exchange& exchange = *exchanges_.at(id);
    finish(id, exchange, timeout_of(exchange));
  }
}

void CurlHttp::Engine::drop_connections() {
  poller_.sockets().shutdown_all();
  drop_pending_ = inside_curl_;
  if (inside_curl_) {
    return;
  }
  // Not left to libcurl: it would repeat a request whose pooled connection ended without a byte.
  for (const Id id : matching([](const Exchange& e) { return e.state == State::Running; })) {
    Exchange& exchange = *exchanges_.at(id);
    finish(id, exchange,
           Error{.kind = Error::Kind::Retryable,
                 .text = exchange.place + ": connection dropped by us as dead or outdated",
                 .hint = {}});
  }
  launch_queued();
}

std::optional<Duration> CurlHttp::Engine::before_wait() {
  if (fresh_) {
    run_curl(Run::WhatWasBegun);
  }
  const bool waiting =
      fresh_ || std::any_of(exchanges_.begin(), exchanges_.end(), [](const auto& e) {
        return e.second->state == State::Over || e.second->has_input();
      });
  if (waiting) {
    return Duration::zero();
  }
  std::optional<Moment> next;
  if (!deadlines_.empty()) {
    next = deadlines_.begin()->first;
  }
  if (is_connecting()) {
    next = std::min(next.value_or(nudge_), nudge_);
  }
  return next ? std::optional(std::max(*next - poller_.now(), Duration::zero())) : std::nullopt;
}

bool CurlHttp::Engine::is_connecting() const {
  return std::any_of(exchanges_.begin(), exchanges_.end(), [](const auto& e) {
    return e.second->state == State::Running && !e.second->attempted;
  });
}

void CurlHttp::Engine::deliver() {
  const bool nudges = poller_.now() >= nudge_ && is_connecting();
  run_curl(nudges ? Run::Everything : Run::WhatIsReady);
  if (nudges) {
    nudge_ = poller_.now() + kNudge;
  }
  expire();
  launch_queued();
  for (const Id id : matching([](const Exchange& exchange) { return exchange.has_input(); })) {
    deliver_input(id);
  }
  for (const Id id : matching([](const Exchange& e) { return e.state == State::Over; })) {
    deliver_input(id);
    deliver_end(id);
  }
}

// The sink may destroy the transfer at any call, so the exchange is looked up again for each.
void CurlHttp::Engine::deliver_input(Id id) {
  Exchange* exchange = find(id);
  if (exchange != nullptr && exchange->head_complete && !exchange->head_delivered) {
    exchange->head_delivered = true;
    const port::HttpHead head = std::move(exchange->head);
    exchange->sink->on_head(head);
    exchange = find(id);
  }
  if (exchange != nullptr && !exchange->inbox.empty()) {
    const std::string bytes = std::exchange(exchange->inbox, {});
    exchange->sink->on_body(bytes);
  }
}

void CurlHttp::Engine::deliver_end(Id id) {
  const auto found = exchanges_.find(id);
  if (found == exchanges_.end()) {
    return;
  }
  const std::unique_ptr<Exchange> exchange = std::move(found->second);
  exchanges_.erase(found);
  exchange->sink->on_end(exchange->end);
}

CurlHttp::CurlHttp(CurlPoller& poller, HttpLimits limits)
    : engine_(std::make_unique<Engine>(poller, limits)) {}

CurlHttp::~CurlHttp() = default;

std::unique_ptr<port::Transfer> CurlHttp::start(port::HttpRequest request, port::HttpSink& sink) {
  return engine_->start(std::move(request), sink);
}

void CurlHttp::use_tls(port::TlsSettings settings) {
  engine_->use_tls(std::move(settings));
}

void CurlHttp::drop_connections() {
  engine_->drop_connections();
}

std::size_t CurlHttp::running(port::Lane lane) const {
  return engine_->running(lane);
}

std::size_t CurlHttp::queued(port::Lane lane) const {
  return engine_->queued(lane);
}

}  // namespace moonfence::os
