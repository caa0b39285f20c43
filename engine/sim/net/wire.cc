#include "sim/net/wire.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "sim/net/chance.h"

namespace moonfence::sim {
namespace {

constexpr int kSlowness = 100;

Error lost_connection(std::string_view why) {
  return {.kind = Error::Kind::Retryable, .text = "connection lost (" + std::string(why) + ")"};
}

}  // namespace

// A request under way to its server.
struct Wire::Flight {
  WireRequest request;
  std::size_t server = 0;
  std::shared_ptr<Channel> back;
  bool is_slow = false;
  loop::Timer timer;
};

// Carries the lines of one watch to its replica.
class Wire::Relay final : public WatchSink {
 public:
  Relay(Wire& wire, std::shared_ptr<Channel> back) : wire_(wire), back_(std::move(back)) {}

  // What the server said while the request was being handled follows the head.
  void begin(std::unique_ptr<WatchStream> stream) {
    stream_ = std::move(stream);
    begun_ = true;
    for (const std::string& line : std::exchange(early_, {})) {
      on_line(line);
    }
    if (ended_early_) {
      on_end();
    }
  }

  void on_line(std::string_view line) override {
    if (!begun_) {
      early_.emplace_back(line);
      return;
    }
    if (back_->finished) {
      return;
    }
    const int times = happens(*wire_.fault_random_, wire_.faults_.watch_duplicate) ? 2 : 1;
    for (int i = 0; i < times; ++i) {
      wire_.add_pieces(*back_, line, wire_.draw_latency());
    }
    if (happens(*wire_.fault_random_, wire_.faults_.black_hole)) {
      wire_.silence(back_);
    } else if (happens(*wire_.fault_random_, wire_.faults_.truncated)) {
      wire_.add_pieces(*back_, line.substr(0, line.size() / 2), Duration::zero());
      wire_.add_end(*back_, Duration::zero(), lost_connection("in the middle of a line"));
    } else if (happens(*wire_.fault_random_, wire_.faults_.watch_cut)) {
      wire_.add_end(*back_, Duration::zero(), std::nullopt);
    }
  }

  void on_end() override {
    if (!begun_) {
      ended_early_ = true;
      return;
    }
    if (!back_->finished) {
      wire_.add_end(*back_, wire_.draw_latency(), std::nullopt);
    }
  }

 private:
  Wire& wire_;
  std::shared_ptr<Channel> back_;
  bool begun_ = false;
  bool ended_early_ = false;
  std::vector<std::string> early_;
  std::unique_ptr<WatchStream> stream_;
};

Wire::Wire(loop::Loop& loop, const TimeLine& time, port::Random& random, Faults faults,
           ServerChoice servers, WireListener& listener)
    : loop_(loop),
      time_(time),
      faults_(faults),
      servers_(std::move(servers)),
      listener_(listener),
      latency_random_(random.fork("latency")),
      fault_random_(random.fork("faults")),
      piece_random_(random.fork("pieces")),
      route_random_(random.fork("routes")) {}

Wire::~Wire() = default;

void Wire::set_faults(const Faults& faults) {
  faults_ = faults;
  for (const std::weak_ptr<Channel>& weak : std::exchange(silent_, {})) {
    const std::shared_ptr<Channel> channel = weak.lock();
    if (channel != nullptr && !channel->abandoned && channel->silent) {
      channel->silent = false;
      add_end(*channel, Duration::zero(), lost_connection("reset by peer"));
    }
  }
}

void Wire::set_link_cut(const std::string& replica, const std::string& node, bool cut) {
  if (cut) {
    cut_links_.emplace(replica, node);
  } else {
    cut_links_.erase({replica, node});
  }
}

void Wire::set_partitioned(const std::string& replica, bool partitioned) {
  if (partitioned) {
    partitioned_.insert(replica);
  } else {
    partitioned_.erase(replica);
  }
}

void Wire::close(std::uint64_t id) {
  relays_.erase(id);
}

bool Wire::survives_partition() {
  return (route_random_->next() & 1U) != 0;
}

Duration Wire::draw_latency() {
  const Duration latency = within(*latency_random_, faults_.latency);
  return happens(*fault_random_, faults_.slow) ? latency * kSlowness : latency;
}

std::size_t Wire::draw_server(std::string_view host) {
  if (host.starts_with("api-")) {
    std::size_t index = 0;
    for (const char c : host.substr(4)) {
      if (c < '0' || c > '9') {
        break;
      }
      index = index * 10 + static_cast<std::size_t>(c - '0');
    }
    return std::min(index, servers_.count - 1);
  }
  return servers_.count == 1 ? 0 : number(*route_random_, 0, servers_.count - 1);
}

Wire::Fate Wire::draw_connection(const std::string& replica, std::size_t server) {
  if (partitioned(replica)) {
    return Fate::Unreachable;
  }
  return servers_.at(server).mood().down || happens(*fault_random_, faults_.refused)
             ? Fate::Refused
             : Fate::Reached;
}

bool Wire::draw_stale_connection() {
  return happens(*fault_random_, faults_.refused);
}

void Wire::send(const WireRequest& request, std::size_t server,
                const std::shared_ptr<Channel>& back) {
  listener_.on_left(request);
  if (partitioned(request.replica)) {
    silence(back);
    return;
  }
  if (happens(*fault_random_, faults_.lost_request)) {
    lose(back, draw_latency());
    return;
  }
  const Duration slow = slow_calls_.delay(request, time_.now);
  if (slow > server_limit(request)) {
    silence(back);  // the server gives it up; its sender does not wait that long either
    return;
  }
  auto flight = std::make_unique<Flight>();
  flight->request = request;
  flight->server = server;
  flight->back = back;
  flight->timer = loop_.after(draw_latency() + slow + (time_.now - loop_.now()),
                              [this, id = request.id] { arrive(id); });
  flights_.insert_or_assign(request.id, std::move(flight));
}

void Wire::arrive(std::uint64_t id) {
  const auto found = flights_.find(id);
  const std::unique_ptr<Flight> flight = std::move(found->second);
  flights_.erase(found);
  const WireRequest& request = flight->request;
  Channel& back = *flight->back;
  ApiServer& server = servers_.at(flight->server);
  if (server.mood().down) {
    add_end(back, draw_latency(), lost_connection("reset by peer"));
    return;
  }
  if (back.abandoned && request.lane == port::Lane::Watches) {
    return;
  }
  auto relay = std::make_unique<Relay>(*this, flight->back);
  ServerAnswer given = server.handle({.method = request.method,
                                      .target = request.target,
                                      .headers = request.headers,
                                      .body = request.body,
                                      .user = request.replica},
                                     relay.get());
  listener_.on_answered(request, given);
  answer(*flight, std::move(given), std::move(relay));
}

void Wire::answer(const Flight& flight, ServerAnswer answer, std::unique_ptr<Relay> relay) {
  Channel& back = *flight.back;
  if (back.abandoned) {
    return;
  }
  if (answer.status == 0) {
    silence(flight.back);
    return;
  }
  const Duration latency = draw_latency();
  if (happens(*fault_random_, faults_.lost_reply)) {
    lose(flight.back, latency);
    return;
  }
  if (happens(*fault_random_, faults_.black_hole)) {
    silence(flight.back);
    return;
  }
  add(back,
      {.kind = Arrival::Kind::Head,
       .head = {.status = answer.status, .headers = std::move(answer.headers)}},
      latency);
  if (answer.watch != nullptr) {
    Relay& kept = *relay;
    relays_.insert_or_assign(flight.request.id, std::move(relay));
    kept.begin(std::move(answer.watch));
    return;
  }
  if (!answer.body.empty() && happens(*fault_random_, faults_.truncated)) {
    const std::size_t kept = number(*fault_random_, 0, answer.body.size() - 1);
    add_pieces(back, std::string_view(answer.body).substr(0, kept), latency);
    // A server that ends its connection instead of a length: nobody says that something is missing.
    const bool told = (fault_random_->next() & 1U) != 0;
    add_end(back, latency, told ? std::optional(lost_connection("answer cut off")) : std::nullopt);
    return;
  }
  add_pieces(back, answer.body, latency);
  add_end(back, latency, std::nullopt);
}

void Wire::add(Channel& channel, Arrival arrival, Duration delay) {
  if (channel.silent || channel.finished || channel.abandoned) {
    return;
  }
  arrival.at = std::max(time_.now + delay, channel.last);
  channel.last = arrival.at;
  channel.finished = arrival.kind == Arrival::Kind::End;
  channel.arrivals.push_back(std::move(arrival));
}

void Wire::add_pieces(Channel& channel, std::string_view body, Duration delay) {
  while (!body.empty()) {
    const std::size_t size = std::min<std::size_t>(
        body.size(), number(*piece_random_, 1, std::max<std::size_t>(faults_.piece_limit, 1)));
    add(channel, {.kind = Arrival::Kind::Body, .bytes = std::string(body.substr(0, size))}, delay);
    body.remove_prefix(size);
    delay += within(*piece_random_, faults_.piece_gap);
  }
}

void Wire::add_end(Channel& channel, Duration delay, std::optional<Error> error) {
  add(channel, {.kind = Arrival::Kind::End, .end = {.error = std::move(error), .sent = true}},
      delay);
}

void Wire::silence(const std::shared_ptr<Channel>& channel) {
  channel->silent = true;
  silent_.push_back(channel);
}

void Wire::lose(const std::shared_ptr<Channel>& channel, Duration delay) {
  if ((fault_random_->next() & 1U) != 0) {
    silence(channel);
  } else {
    add_end(*channel, delay, lost_connection("reset by peer"));
  }
}

}  // namespace moonfence::sim
