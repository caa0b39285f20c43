#include "sim/net/sim_links.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "sim/net/chance.h"

namespace moonfence::sim {

struct SimLinks::Connection {
  // As the kernels have it; the replica hears of it later.
  enum class State { Opening, Open, Over };

  port::Peer peer;
  port::LinkSink* sink = nullptr;
  Moment limit{};
  State state = State::Opening;
  bool told_open = false;
  const Machine* machine = nullptr;  // once it has answered
  Moment opened{};
  // The machine's end is gone: its process died, or its power went.
  bool forgotten = false;
  loop::Timer packet;   // on its way to the machine, or from it
  loop::Timer silence;  // when it is given up, unless the machine is heard before
  loop::Timer question;
  int unanswered = 0;  // of these, in a row
};

class SimLinks::Handle final : public port::Link {
 public:
  Handle(SimLinks& links, Id id) : links_(links), id_(id) {}
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() override { links_.cancel(id_); }

 private:
  SimLinks& links_;
  Id id_;
};

SimLinks::SimLinks(const Surroundings& around, std::string replica,
                   std::unique_ptr<port::Random> random, std::function<bool()> may_leave)
    : around_(around),
      replica_(std::move(replica)),
      random_(std::move(random)),
      may_leave_(std::move(may_leave)) {}

SimLinks::~SimLinks() = default;

SimLinks::Connection* SimLinks::find(Id id) {
  const auto found = connections_.find(id);
  return found == connections_.end() ? nullptr : found->second.get();
}

std::unique_ptr<port::Link> SimLinks::open(const port::Peer& peer, Duration limit,
                                           port::LinkSink& sink) {
  const Id id = next_id_++;
  auto made = std::make_unique<Connection>();
  Connection& connection = *made;
  connections_.emplace(id, std::move(made));
  connection.peer = peer;
  connection.sink = &sink;
  connection.limit = around_.wire.now() + limit;
  if (may_leave_()) {
    connection.packet = in(draw_latency(), [this, id] { ask(id); });
  }
  return std::make_unique<Handle>(*this, id);
}

void SimLinks::cancel(Id id) {
  connections_.erase(id);
  std::erase_if(arrivals_, [id](const Arrival& arrival) { return arrival.id == id; });
}

Duration SimLinks::draw_latency() {
  return within(*random_, around_.wire.latency());
}

double SimLinks::lost_packet(const Machine& machine) const {
  return 1 - (1 - around_.wire.lost_packet()) * (1 - machine.lost_packet);
}

bool SimLinks::draws_answer(const Machine& machine) {
  const double lost = lost_packet(machine);
  return lost <= 0 || !(happens(*random_, lost) || happens(*random_, lost));
}

// The cluster's loop may have had its last turn a while ago.
loop::Timer SimLinks::in(Duration delay, std::function<void()> action) {
  return around_.loop.after(delay + (around_.wire.now() - around_.loop.now()), std::move(action));
}

const Machine* SimLinks::machine_of(const std::string& address) const {
  const auto& machines = around_.machines.by_name;
  const auto found = std::find_if(machines.begin(), machines.end(), [&address](const auto& entry) {
    return entry.second.address == address;
  });
  return found == machines.end() ? nullptr : &found->second;
}

// The SYN has reached the place where the machine should be. A kernel answers it by itself, also
// while its processes stand still.
void SimLinks::ask(Id id) {
  Connection& connection = *find(id);
  const Machine* machine = machine_of(connection.peer.address);
  if (machine == nullptr || !machine->answers() || is_cut_off(*machine) ||
      !draws_answer(*machine)) {
    return;  // until the limit
  }
  const bool listens = machine->kubelet && connection.peer.port == kKubeletPort;
  connection.packet = in(draw_latency(), [this, id, listens, machine] {
    if (is_cut_off(*machine)) {
      return;
    }
    if (!listens) {
      close(id, port::LinkEnd::Refused);
      return;
    }
    Connection& opened = *find(id);
    opened.state = Connection::State::Open;
    opened.opened = around_.wire.now();
    arrive(id, std::nullopt);
    look_at(id, opened);
  });
  connection.machine = machine;
}

void SimLinks::keep_alive(Id id, Connection& connection) {
  constexpr int kMost = port::kLinkPatience / std::chrono::seconds(1);
  if (lost_packet(*connection.machine) <= 0) {
    return;
  }
  connection.question = in(port::kLinkIdle, [this, id] {
    Connection& asked = *find(id);
    asked.unanswered = draws_answer(*asked.machine) ? 0 : asked.unanswered + 1;
    if (asked.unanswered >= kMost) {
      close(id, port::LinkEnd::Silent);
    } else {
      keep_alive(id, asked);
    }
  });
}

void SimLinks::look() {
  for (const auto& [id, connection] : connections_) {
    look_at(id, *connection);
  }
}

// A machine that has forgotten the connection says so as soon as it can: by a FIN or an RST of its
// own, or in answer to what our kernel asks once a second. Nothing of ours hears a machine that is
// away for so short a time that it was not asked, or answers before the last question is given up.
void SimLinks::look_at(Id id, Connection& connection) {
  const Machine* machine = connection.machine;
  if (machine == nullptr || connection.state == Connection::State::Over) {
    return;
  }
  connection.forgotten = connection.forgotten || !machine->powered || !machine->kubelet;
  if (connection.state != Connection::State::Open) {
    return;
  }
  if (!connection.question.pending()) {
    keep_alive(id, connection);
  }
  if (!machine->answers() || is_cut_off(*machine)) {
    if (!connection.silence.pending()) {
      const Duration age = around_.wire.now() - connection.opened;
      const Duration asked = (age / port::kLinkIdle + 1) * port::kLinkIdle - age;
      connection.silence =
          in(asked + port::kLinkPatience, [this, id] { close(id, port::LinkEnd::Silent); });
    }
    return;
  }
  connection.silence.cancel();
  if (connection.forgotten && !connection.packet.pending()) {
    connection.packet = in(draw_latency(), [this, id, machine] {
      if (!is_cut_off(*machine)) {
        close(id, port::LinkEnd::Closed);
      }
    });
  }
}

void SimLinks::close(Id id, port::LinkEnd end) {
  Connection& connection = *find(id);
  connection.state = Connection::State::Over;
  connection.packet.cancel();
  connection.silence.cancel();
  connection.question.cancel();
  arrive(id, end);
}

void SimLinks::arrive(Id id, std::optional<port::LinkEnd> end) {
  arrivals_.push_back({.at = around_.wire.now(), .id = id, .end = end});
}

std::optional<Moment> SimLinks::next_due() const {
  std::optional<Moment> due;
  if (!arrivals_.empty()) {
    due = arrivals_.front().at;
  }
  for (const auto& [id, connection] : connections_) {
    if (!connection->told_open) {
      due = std::min(due.value_or(connection->limit), connection->limit);
    }
  }
  return due;
}

void SimLinks::perform() {
  while (!arrivals_.empty()) {
    const Arrival arrival = arrivals_.front();
    arrivals_.pop_front();
    if (arrival.end) {
      end(arrival.id, *arrival.end);
      continue;
    }
    Connection& connection = *find(arrival.id);
    connection.told_open = true;
    connection.sink->on_open();
  }
  expire();
}

// The sink may destroy any link, and open others.
void SimLinks::end(Id id, port::LinkEnd how) {
  port::LinkSink& sink = *find(id)->sink;
  cancel(id);
  sink.on_end(how);
}

void SimLinks::expire() {
  std::vector<Id> expired;
  for (const auto& [id, connection] : connections_) {
    if (!connection->told_open && connection->limit <= around_.wire.now()) {
      expired.push_back(id);
    }
  }
  for (const Id id : expired) {
    if (find(id) != nullptr) {
      end(id, port::LinkEnd::Silent);
    }
  }
}

}  // namespace moonfence::sim
