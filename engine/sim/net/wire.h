#pragma once

// Wire is the network between the replicas and the API servers, with everything that goes wrong on
// it. A request travels, is handled and committed the moment it arrives, whatever became of its
// sender meanwhile; the answer travels back in pieces. Time on the wire is a timer of the cluster's
// loop on the way there and a moment of arrival on the way back: SimHttp (sim/net/sim_http.h) is
// the replica's end and delivers what has arrived when its replica takes a turn.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "loop/loop.h"
#include "port/http.h"
#include "port/random.h"
#include "sim/ground/faults.h"
#include "sim/net/slow_calls.h"
#include "sim/net/time_line.h"
#include "sim/server/api_server.h"

namespace moonfence::sim {

// One request as it left a replica; for the checkers.
struct WireRequest {
  std::string replica;   // "moonfence-0"
  int incarnation = 0;   // counts its starts
  std::uint64_t id = 0;  // of the exchange, unique in a run
  port::Method method = port::Method::Get;
  std::string target;                 // path and query
  std::vector<port::Header> headers;  // names in lower case
  std::string body;
  port::Lane lane = port::Lane::Writes;
  Moment issued{};  // by the replica, which may have to connect first
  Moment left{};
};

// Who wants to know what happens on the wire: the checkers, the story.
class WireListener {
 public:
  virtual ~WireListener() = default;
  // Its bytes are leaving now.
  virtual void on_left(const WireRequest& request) = 0;
  // A server has handled it now; the answer may still be lost.
  virtual void on_answered(const WireRequest& request, const ServerAnswer& answer) = 0;
  // A line of a watch, or the complete body of another answer, has reached the replica.
  virtual void on_heard(const WireRequest& request, int status, std::string_view text) = 0;
  // The exchange is over for the replica.
  virtual void on_ended(const WireRequest& request, int status, const port::HttpEnd& end) = 0;
};

// Something that reaches a replica.
struct Arrival {
  enum class Kind { Connected, Head, Body, End };
  Moment at{};
  Kind kind = Kind::Body;
  bool local = false;  // made by the replica's own machine: a partition does not hold it up
  port::HttpHead head = {};
  std::string bytes = {};
  port::HttpEnd end = {};
};

// The way back of one exchange. Shared: the replica may give it up while the server still writes.
struct Channel {
  std::deque<Arrival> arrivals;
  Moment last{};           // nothing may arrive before what was sent before it
  bool abandoned = false;  // the replica does not listen any more
  bool silent = false;     // whatever is written is lost, and nobody is told
  bool finished = false;   // its End is on the way
};

// Which servers there are; a number picks one.
struct ServerChoice {
  std::size_t count = 1;
  std::function<ApiServer&(std::size_t)> at;
};

class Wire {
 public:
  // All references must outlive it. `random` is forked, one stream for each kind of draw.
  Wire(loop::Loop& loop, const TimeLine& time, port::Random& random, Faults faults,
       ServerChoice servers, WireListener& listener);
  ~Wire();
  Wire(const Wire&) = delete;
  Wire& operator=(const Wire&) = delete;

  // From now on, for what happens from now on. Connections that had fallen silent break.
  void set_faults(const Faults& faults);
  void set_partitioned(const std::string& replica, bool partitioned);
  // Whether packets pass between a replica and a node's machine.
  void set_link_cut(const std::string& replica, const std::string& node, bool cut);
  [[nodiscard]] SlowCalls& slow_calls() { return slow_calls_; }
  // Each way, now.
  [[nodiscard]] const Range& latency() const { return faults_.latency; }
  // Of packets to a node's kernel, and of those from it.
  [[nodiscard]] double lost_packet() const { return faults_.lost_packet; }
  [[nodiscard]] bool partitioned(const std::string& replica) const {
    return partitioned_.contains(replica);
  }
  [[nodiscard]] bool is_link_cut(const std::string& replica, const std::string& node) const {
    return cut_links_.contains({replica, node});
  }

  // --- the replica's end

  enum class Fate { Reached, Refused, Unreachable };
  // A connection is asked for; how it will end, and how long the first two take.
  [[nodiscard]] Fate draw_connection(const std::string& replica, std::size_t server);
  [[nodiscard]] Duration draw_latency();
  // The server that a new exchange of that host goes to: "api-0.sim" always the same one, "api.sim"
  // any of them.
  [[nodiscard]] std::size_t draw_server(std::string_view host);
  // A connection that was kept turns out to be dead before a byte has come back.
  [[nodiscard]] bool draw_stale_connection();
  // The bytes leave.
  void send(const WireRequest& request, std::size_t server, const std::shared_ptr<Channel>& back);
  void tell_heard(const WireRequest& request, int status, std::string_view text) {
    listener_.on_heard(request, status, text);
  }
  void tell_ended(const WireRequest& request, int status, const port::HttpEnd& end) {
    listener_.on_ended(request, status, end);
  }
  // The replica closed an exchange: its watch ends on the server too.
  void close(std::uint64_t id);
  [[nodiscard]] std::uint64_t next_id() { return next_id_++; }
  [[nodiscard]] Moment now() const { return time_.now; }
  // Nothing comes back any more, until faults end.
  void silence(const std::shared_ptr<Channel>& channel);
  // Whether a connection lives through a partition: its bytes come late, or never.
  [[nodiscard]] bool survives_partition();

 private:
  class Relay;
  struct Flight;
  void arrive(std::uint64_t id);
  void answer(const Flight& flight, ServerAnswer answer, std::unique_ptr<Relay> relay);
  void add(Channel& channel, Arrival arrival, Duration delay);
  void add_pieces(Channel& channel, std::string_view body, Duration delay);
  void add_end(Channel& channel, Duration delay, std::optional<Error> error);
  void lose(const std::shared_ptr<Channel>& channel, Duration delay);

  loop::Loop& loop_;
  const TimeLine& time_;
  Faults faults_;
  ServerChoice servers_;
  WireListener& listener_;
  std::unique_ptr<port::Random> latency_random_;
  std::unique_ptr<port::Random> fault_random_;
  std::unique_ptr<port::Random> piece_random_;
  std::unique_ptr<port::Random> route_random_;
  std::set<std::string> partitioned_;
  std::set<std::pair<std::string, std::string>> cut_links_;  // replicas and nodes
  SlowCalls slow_calls_;
  std::map<std::uint64_t, std::unique_ptr<Flight>> flights_;
  std::map<std::uint64_t, std::unique_ptr<Relay>> relays_;  // open watches
  std::vector<std::weak_ptr<Channel>> silent_;              // to be broken when faults end
  std::uint64_t next_id_ = 1;
};

}  // namespace moonfence::sim
