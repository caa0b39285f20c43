#include "sim/net/sim_http.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/text.h"

namespace moonfence::sim {
namespace {

constexpr Duration kConnectLimit = std::chrono::seconds(4);
constexpr std::size_t kPooledConnections = 256;

Error retryable(std::string text) {
  return {.kind = Error::Kind::Retryable, .text = std::move(text)};
}

std::string_view host_of(std::string_view url) {
  const auto host = url.find("://");
  url.remove_prefix(host == std::string_view::npos ? 0 : host + 3);
  return url.substr(0, url.find('/'));
}

std::string target_of(std::string_view url) {
  const auto host = url.find("://");
  const auto path = url.find('/', host == std::string_view::npos ? 0 : host + 3);
  return path == std::string_view::npos ? "/" : std::string(url.substr(path));
}

}  // namespace

struct SimHttp::Exchange {
  enum class State { Queued, Connecting, Sent, Over };

  port::HttpRequest request;
  port::HttpSink* sink = nullptr;
  WireRequest wire;
  std::size_t server = 0;
  State state = State::Queued;
  std::optional<Moment> deadline;
  std::shared_ptr<Channel> back = std::make_shared<Channel>();
  bool in_lane = false;
  bool sent = false;
  int status = 0;
  // What the checkers follow: ConfigMaps and watch lines, put together again.
  bool is_watch = false;
  std::string heard;
};

class SimHttp::Handle final : public port::Transfer {
 public:
  Handle(SimHttp& http, Id id) : http_(http), id_(id) {}
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() override { http_.cancel(id_); }

 private:
  SimHttp& http_;
  Id id_;
};

SimHttp::SimHttp(Wire& wire, std::string replica, int incarnation, std::function<bool()> may_leave)
    : wire_(wire),
      replica_(std::move(replica)),
      incarnation_(incarnation),
      may_leave_(std::move(may_leave)) {
  lane_of(port::Lane::Writes).bound = kWrites;
  lane_of(port::Lane::Watches).bound = std::numeric_limits<std::size_t>::max();
  lane_of(port::Lane::Bulk).bound = kBulk;
  lane_of(port::Lane::Endpoints).bound = kEndpoints;
  lane_of(port::Lane::Guests).bound = kGuests;
}

SimHttp::~SimHttp() {
  for (const auto& [id, exchange] : exchanges_) {
    exchange->back->abandoned = true;
    wire_.close(id);
  }
}

SimHttp::Exchange* SimHttp::find(Id id) {
  const auto found = exchanges_.find(id);
  return found == exchanges_.end() ? nullptr : found->second.get();
}

std::unique_ptr<port::Transfer> SimHttp::start(port::HttpRequest request, port::HttpSink& sink) {
  const Id id = wire_.next_id();
  auto exchange = std::make_unique<Exchange>();
  exchange->wire = {.replica = replica_,
                    .incarnation = incarnation_,
                    .id = id,
                    .method = request.method,
                    .target = target_of(request.url),
                    .headers = request.headers,
                    .body = request.body,
                    .lane = request.lane,
                    .issued = wire_.now()};
  for (port::Header& header : exchange->wire.headers) {
    header.name = lower_cased(header.name);
  }
  exchange->server = wire_.draw_server(host_of(request.url));
  exchange->sink = &sink;
  exchange->is_watch = request.lane == port::Lane::Watches &&
                       exchange->wire.target.find("watch=") != std::string::npos;
  if (request.timeout > Duration::zero()) {
    exchange->deadline = wire_.now() + request.timeout;
  }
  exchange->request = std::move(request);
  if (!may_leave_()) {
    exchange->back->silent = true;  // the process is dead and only does not know it yet
    exchange->state = Exchange::State::Sent;
  } else {
    lane_of(exchange->request.lane).queue.push_back(id);
  }
  exchanges_.emplace(id, std::move(exchange));
  return std::make_unique<Handle>(*this, id);
}

void SimHttp::cancel(Id id) {
  Exchange* exchange = find(id);
  if (exchange == nullptr) {
    return;
  }
  leave_lane(*exchange);
  exchange->back->abandoned = true;
  wire_.close(id);
  exchanges_.erase(id);
}

void SimHttp::leave_lane(Exchange& exchange) {
  Lane& lane = lane_of(exchange.request.lane);
  if (exchange.state == Exchange::State::Queued) {
    std::erase(lane.queue, exchange.wire.id);
  }
  if (std::exchange(exchange.in_lane, false)) {
    --lane.running;
  }
  exchange.state = Exchange::State::Over;
}

void SimHttp::flush() {
  launch_queued();
}

void SimHttp::launch_queued() {
  for (Lane& lane : lanes_) {
    while (!lane.queue.empty() && lane.running < lane.bound) {
      Exchange& exchange = *exchanges_.at(lane.queue.front());
      lane.queue.pop_front();
      ++lane.running;
      exchange.in_lane = true;
      launch(exchange);
    }
  }
}

void SimHttp::launch(Exchange& exchange) {
  exchange.state = Exchange::State::Connecting;
  if (pooled_ > 0) {
    --pooled_;
    attempt(exchange, true);
    return;
  }
  switch (wire_.draw_connection(replica_, exchange.server)) {
    case Wire::Fate::Reached:
      exchange.back->arrivals.push_back({.at = wire_.now() + wire_.draw_latency() * 2,
                                         .kind = Arrival::Kind::Connected,
                                         .local = true});
      break;
    case Wire::Fate::Refused:
      finish_locally(exchange, wire_.draw_latency() * 2,
                     retryable("cannot connect: connection refused"));
      break;
    case Wire::Fate::Unreachable:
      finish_locally(exchange, kConnectLimit, retryable("no connection within 4s"));
      break;
  }
}

// The bytes leave, if they still may.
void SimHttp::attempt(Exchange& exchange, bool pooled) {
  if (!may_leave_()) {
    exchange.back->silent = true;
    return;
  }
  if (exchange.request.may_send && !exchange.request.may_send()) {
    finish_locally(
        exchange, Duration::zero(),
        {.kind = Error::Kind::Cancelled, .text = "the request was not allowed to be sent"});
    return;
  }
  exchange.sent = true;
  if (pooled && wire_.draw_stale_connection()) {
    // Repeated by the transport itself on a fresh connection, as libcurl does.
    exchange.back->arrivals.push_back({.at = wire_.now() + wire_.draw_latency() * 3,
                                       .kind = Arrival::Kind::Connected,
                                       .local = true});
    return;
  }
  exchange.state = Exchange::State::Sent;
  exchange.wire.left = wire_.now();
  wire_.send(exchange.wire, exchange.server, exchange.back);
}

void SimHttp::finish_locally(Exchange& exchange, Duration delay, Error error) {
  exchange.back->finished = true;
  exchange.back->arrivals.push_back({.at = wire_.now() + delay,
                                     .kind = Arrival::Kind::End,
                                     .local = true,
                                     .end = {.error = std::move(error), .sent = exchange.sent}});
}

void SimHttp::drop_connections() {
  pooled_ = 0;
  for (const auto& [id, exchange] : exchanges_) {
    if (!exchange->in_lane) {
      continue;
    }
    wire_.close(id);
    // What the server still writes goes nowhere.
    exchange->back->abandoned = true;
    exchange->back = std::make_shared<Channel>();
    finish_locally(*exchange, Duration::zero(),
                   retryable("connection dropped by us as dead or outdated"));
  }
}

std::optional<Moment> SimHttp::next_due() const {
  std::optional<Moment> due;
  const auto consider = [&due](Moment moment) { due = std::min(due.value_or(moment), moment); };
  const bool cut_off = wire_.partitioned(replica_);
  for (const auto& [id, exchange] : exchanges_) {
    if (exchange->deadline) {
      consider(*exchange->deadline);
    }
    const Channel& back = *exchange->back;
    if (!back.arrivals.empty() && !(cut_off && !back.arrivals.front().local)) {
      consider(back.arrivals.front().at);
    }
  }
  for (const Lane& lane : lanes_) {
    if (!lane.queue.empty() && lane.running < lane.bound) {
      consider(wire_.now());
    }
  }
  return due;
}

void SimHttp::perform() {
  std::vector<Id> ready;
  const bool cut_off = wire_.partitioned(replica_);
  for (const auto& [id, exchange] : exchanges_) {
    const Channel& back = *exchange->back;
    if (!back.arrivals.empty() && back.arrivals.front().at <= wire_.now() &&
        !(cut_off && !back.arrivals.front().local)) {
      ready.push_back(id);
    }
  }
  for (const Id id : ready) {
    deliver(id);
  }
  expire();
  launch_queued();
}

// The sink may destroy the transfer at any call, so the exchange is looked up again for each.
void SimHttp::deliver(Id id) {
  const bool cut_off = wire_.partitioned(replica_);
  while (Exchange* exchange = find(id)) {
    std::deque<Arrival>& arrivals = exchange->back->arrivals;
    if (arrivals.empty() || arrivals.front().at > wire_.now() ||
        (cut_off && !arrivals.front().local)) {
      return;
    }
    Arrival arrival = std::move(arrivals.front());
    arrivals.pop_front();
    take(*exchange, std::move(arrival));
  }
}

void SimHttp::take(Exchange& exchange, Arrival arrival) {
  switch (arrival.kind) {
    case Arrival::Kind::Connected:
      attempt(exchange, false);
      return;
    case Arrival::Kind::Head:
      exchange.status = arrival.head.status;
      exchange.sink->on_head(arrival.head);
      return;
    case Arrival::Kind::Body:
      hear(exchange, arrival.bytes);
      exchange.sink->on_body(arrival.bytes);
      return;
    case Arrival::Kind::End:
      break;
  }
  arrival.end.sent = exchange.sent;
  const Id id = exchange.wire.id;
  leave_lane(exchange);
  wire_.close(id);
  if (!arrival.end.error) {
    pooled_ = std::min(pooled_ + 1, kPooledConnections);
    if (!exchange.is_watch) {
      wire_.tell_heard(exchange.wire, exchange.status, exchange.heard);
    }
  }
  const std::unique_ptr<Exchange> ended = std::move(exchanges_.at(id));
  exchanges_.erase(id);
  ended->back->abandoned = true;
  wire_.tell_ended(ended->wire, ended->status, arrival.end);
  ended->sink->on_end(arrival.end);
}

void SimHttp::hear(Exchange& exchange, std::string_view bytes) {
  exchange.heard += bytes;
  if (!exchange.is_watch) {
    return;
  }
  std::size_t begin = 0;
  for (auto end = exchange.heard.find('\n'); end != std::string::npos;
       end = exchange.heard.find('\n', begin)) {
    wire_.tell_heard(exchange.wire, exchange.status,
                     std::string_view(exchange.heard).substr(begin, end - begin));
    begin = end + 1;
  }
  exchange.heard.erase(0, begin);
}

void SimHttp::expire() {
  std::vector<Id> expired;
  for (const auto& [id, exchange] : exchanges_) {
    if (exchange->deadline && *exchange->deadline <= wire_.now()) {
      expired.push_back(id);
    }
  }
  for (const Id id : expired) {
    Exchange* exchange = find(id);
    if (exchange == nullptr) {
      continue;
    }
    const std::string limit = format_duration(exchange->request.timeout);
    const std::string what = exchange->state == Exchange::State::Queued
                                 ? "still waiting for its turn after " + limit
                             : !exchange->sent       ? "no connection within " + limit
                             : exchange->status != 0 ? "the answer was not complete within " + limit
                                                     : "no answer within " + limit;
    Arrival end{.kind = Arrival::Kind::End, .local = true};
    end.end.error = retryable(what);
    take(*exchange, std::move(end));
  }
}

void SimHttp::reconnect() {
  for (const auto& [id, exchange] : exchanges_) {
    if (exchange->in_lane && exchange->sent && !wire_.survives_partition()) {
      wire_.silence(exchange->back);
      std::erase_if(exchange->back->arrivals, [](const Arrival& a) { return !a.local; });
    }
  }
}

}  // namespace moonfence::sim
