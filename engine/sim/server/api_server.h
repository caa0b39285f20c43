#pragma once

// ApiServer answers HTTP requests over an ObjectStore as kube-apiserver does, restricted to what
// moonfence, its tests and the contract suite use: GET, LIST with pages, selectors and
// resourceVersion rules, WATCH with bookmarks, POST, PUT, PATCH (JSON, merge, strategic merge for
// the lists we write), DELETE with options, dryRun, /livez, /readyz, /version, and GET of a node's
// proxy. Errors are metav1.Status. tests/contract holds it to a real kube-apiserver.
//
// DELETE of a whole collection is not served (405).
//
// Several servers may stand over one store, each with a watch cache of its own staleness. An answer
// is made at one instant; time on the wire is SimHttp's concern. A watch is fed by the timeline.

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "loop/loop.h"
#include "port/http.h"
#include "port/random.h"
#include "sim/store/object_store.h"

namespace moonfence::sim {

struct ServerRequest {
  port::Method method = port::Method::Get;
  std::string target;  // path and query as on the wire, percent-encoded
  std::vector<port::Header> headers;
  std::string body;
  std::string user;       // who is authenticated; "" is anonymous
  bool rejected = false;  // its credentials are not accepted: 401
};

// Receives the lines of a watch, each a complete JSON document with its newline.
class WatchSink {
 public:
  virtual ~WatchSink() = default;
  virtual void on_line(std::string_view line) = 0;
  virtual void on_end() = 0;  // timeoutSeconds passed or the server went away; nothing follows
};

// An open watch. Destroying it closes it.
class WatchStream {
 public:
  virtual ~WatchStream() = default;
};

struct ServerAnswer {
  int status = 200;                   // 0: it never answers
  std::vector<port::Header> headers;  // lower-case names; Date, Audit-Id, Content-Type among them
  std::string body;                   // of a watch: empty, and lines go to the sink
  std::unique_ptr<WatchStream> watch;
  // How long the server took beyond an instant: a read that waits until its watch cache is fresh
  // enough answers, or gives up, that much later. The transport adds it.
  Duration took{};
  // What a write did, for the checkers: null when nothing was committed.
  std::optional<Change> committed;
};

// What a server is told to do wrong. Changed at any time by the faults.
struct ServerMood {
  Duration cache_lag{};              // its watch cache and watches are this far behind the store
  bool down = false;                 // answers nothing: SimHttp refuses connections
  double too_many = 0;               // share of requests answered with 429 and Retry-After
  double internal = 0;               // share of requests answered with 500, uncommitted
  double internal_after_commit = 0;  // share of writes answered with 500 or 504 although committed
  // Share of watches from a forgotten version that are refused with an HTTP 410. The others get 200
  // and an ERROR event, as Kubernetes' own watch cache does it.
  double gone_as_answer = 0;
};

struct ServerRules {
  Duration bookmark_interval = std::chrono::minutes(1);
  std::size_t history = 1000;  // changes a watch can still start from; older is 410
  bool watch_list = false;     // sendInitialEvents=true is understood (1.27+); else 422
  // The watch cache of one resource learns of versions that others' changes made (1.31+). Before
  // that a list "not older than" another resource's version may wait for 3 s and fail with 504.
  bool shared_versions = false;
  int kubernetes = 20;  // what GET /version says: 1.x
  // Returns why it is forbidden (see denial()), or "": the RBAC of the world.
  std::function<std::string(const std::string& user, std::string_view verb,
                            const std::string& resource, const std::string& space)>
      authorize;
  // What a kubelet answers to a GET that is relayed to it: `path` as "/pods". Empty: nodes have no
  // proxy.
  std::function<ServerAnswer(const std::string& node, std::string_view path)> kubelet;
};

// As RBAC words it: User "u" cannot get resource "pods" in API group "" in the namespace "x".
[[nodiscard]] std::string denial(const std::string& user, std::string_view verb,
                                 const std::string& resource, const std::string& space);

class ApiServer {
 public:
  ApiServer(loop::Loop& loop, ObjectStore& store, port::Random& random,
            std::function<WallTime()> now, ServerRules rules);
  ~ApiServer();
  ApiServer(const ApiServer&) = delete;
  ApiServer& operator=(const ApiServer&) = delete;

  // `sink` is used by a watch only and must outlive its stream.
  [[nodiscard]] ServerAnswer handle(const ServerRequest& request, WatchSink* sink);

  void set_mood(const ServerMood& mood);
  // Writes of `what` are answered so until then (sim/server/write_refusals.h), in place of being
  // done.
  void refuse_writes(const std::string& what, const std::string& how, Moment until);
  // Reads of one of them by its name find nothing until then (sim/server/hidden_objects.h).
  void hide_objects(const std::string& what, Moment until, std::optional<int> times);
  void end_refusals();
  // See Watches::hush.
  void hush_watches(const std::string& what, Moment until);
  [[nodiscard]] const ServerMood& mood() const;
  // Ends all watches and forgets the watch cache's history: older versions are 410 from now on.
  void restart();
  // Forgets the history up to now (etcd compaction); open watches live on.
  void compact();
  // The store is another one, restored from a snapshot. Its watches must have ended before.
  void begin_anew();

 private:
  struct State;
  // Shared with the store's listener alone, which outlives the server and must then know it.
  std::shared_ptr<State> state_;
};

}  // namespace moonfence::sim
