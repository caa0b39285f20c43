#pragma once

// WatchMachine decides how a picture of one resource is kept up to date: list, watch, resume,
// relist, back off. It is pure: what happened, the moment and one number of chance go in, effects
// come out; the driver (kube/watching/watcher.cc) performs them and decides nothing. Everything can
// be printed. Its rules are those of client-go's reflector (tools/cache/reflector.go) with two
// stricter ones for a fencer: the first list is consistent (RV=0 may show a node's past), and a
// relist also happens by itself every 15 to 30 minutes, because a watch cache can lose a deletion
// for good (kubernetes/kubernetes#123072). And where a connection was lost, the collection's
// version is asked for before the watch goes on: the server may have been restored from a backup
// meanwhile, and one that is asked to watch from a version to come answers 200 and says nothing
// until it is there. A history that has overtaken that version by then is found by the next relist
// only.
//
// A watch that stands still looks like a quiet one: behind a load balancer that lost its
// connection, a proxy that buffers, a cache that lags. So the collection's version is asked for
// beside it, by a list of nothing that no cache may answer, and the watch has to reach it in an
// event or a bookmark. Where it does not, everything is listed anew.

#include <deque>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/error.h"
#include "base/names.h"
#include "base/time.h"
#include "kube/wire/backoff.h"
#include "kube/wire/list_plan.h"

namespace moonfence::kube {

struct WatchRules {
  // The server is asked to end a watch after a time in this range, so that 20 replicas do not
  // return together after it restarted.
  Duration shortest_watch = std::chrono::seconds(300);
  Duration longest_watch = std::chrono::seconds(600);
  // We end it ourselves this much later: a server may ignore what it was asked.
  Duration deadline_margin = std::chrono::seconds(10);
  // Silence after which a stream counts as dead. Bookmarks come about once a minute but are not
  // promised, hence two of them and some.
  Duration stall_limit = std::chrono::seconds(130);
  // The same for a list, and for a watch that was not answered yet: somebody on the way has lost
  // it. A server works on a list without a pause, and answers a watch before there is anything to
  // tell; while it hangs we are blind.
  Duration answer_stall_limit = std::chrono::seconds(30);
  // A watch that ends sooner with nothing said has failed, or a server that closes at once would be
  // asked a thousand times a second.
  Duration short_life = std::chrono::seconds(1);
  int server_error_limit = 5;  // 5xx in a row at one version before everything is listed again
  // The watch must have told of a version this long after the server had it: bookmarks come every
  // minute (k/k staging/src/k8s.io/apiserver/pkg/storage/cacher, bookmarkFrequency).
  Duration catch_up = std::chrono::seconds(75);
  Duration compare_every = std::chrono::seconds(15);
  Duration shortest_audit = std::chrono::minutes(15);
  Duration longest_audit = std::chrono::minutes(30);
};

// What happened.
struct Started {};
struct Resumed {  // somebody else has listed, and it is to go on there
  ResourceVersion version;
};
struct ItemArrived {};  // one whole item of the list under way
struct PageArrived {
  ListMeta meta;
};
struct ListFailed {
  Error error;
};
struct WatchOpened {};
struct FrameArrived {
  enum class Type { Added, Modified, Deleted, Bookmark, Error, Undecodable };
  Type type = Type::Undecodable;
  ResourceVersion version = {};                          // of the object or the bookmark
  std::optional<moonfence::Error> error = std::nullopt;  // Error: what the server said
  std::string text = {};                                 // Undecodable: why
};
struct StreamClosed {
  std::optional<Error> error;
};
struct Stalled {};
struct TimerFired {};
struct ListWanted {};  // what we believe may be old: list the most recent state
struct ComparisonDue {};
struct VersionTold {  // the answer to AskVersion
  ResourceVersion version;
};
using WatchEvent =
    std::variant<Started, Resumed, ItemArrived, PageArrived, ListFailed, WatchOpened, FrameArrived,
                 StreamClosed, Stalled, TimerFired, ListWanted, ComparisonDue, VersionTold>;

// What is to be done. A start replaces whatever request is running.
struct StartList {
  Query query;         // without the selectors
  bool fresh = false;  // the first request of a list
  bool version_only = false;
};
struct StartWatch {
  ResourceVersion version;
  std::chrono::seconds timeout{};  // asked of the server
  Duration deadline{};             // our own
};
struct StopRequest {};
struct AskVersion {};  // of the collection, beside whatever is running
struct SetTimer {
  Duration delay{};
};
struct Emit {
  enum class What { Init, InitApply, InitDone, Apply, Delete };
  What what = What::Init;
};
struct Note {
  enum class What {
    ListFailed,
    WatchFailed,
    Expired,
    Undecodable,
    Stalled,
    StandsStill,
    Audit,
    WentBack
  };
  What what = What::ListFailed;
  std::string text;
};
using WatchEffect =
    std::variant<StartList, StartWatch, StopRequest, SetTimer, AskVersion, Emit, Note>;

[[nodiscard]] std::string_view to_string(Note::What what);
// One line: "list limit=500", "watch rv=7 for 5m", "timer 800ms", "emit init_done", "note expired".
[[nodiscard]] std::string to_string(const WatchEffect& effect);

class WatchMachine {
 public:
  using Effects = std::vector<WatchEffect>;

  explicit WatchMachine(WatchRules rules = {}) : rules_(rules) {}

  // `chance` is uniform in [0, 1). `room`: of a former answer, to be used again.
  [[nodiscard]] Effects step(Moment now, double chance, const WatchEvent& event, Effects room = {});

  // "listing page 2", "watching rv=7", "backing off, then watch": for logs and tests.
  [[nodiscard]] std::string text() const;
  // The last version processed; where a watch would resume.
  [[nodiscard]] const ResourceVersion& version() const { return version_; }
  // What the server had at this moment has all been told.
  [[nodiscard]] Moment whole_at() const { return whole_at_; }

 private:
  struct Empty {};
  struct Listing {
    ListPlan plan;
    bool begun = false;  // Init was emitted for what is being read
    bool audit = false;  // nothing was wrong: the watch could have gone on
    Moment begun_at{};
  };
  struct Watching {
    std::optional<Moment> opened = std::nullopt;
    int frames = 0;
  };
  struct Asking {};  // for the version that the collection has now
  struct BackingOff {
    bool then_list = false;
  };

  void on(const Started&);
  void on(const Resumed& resumed);
  void on(const ItemArrived&);
  void on(const PageArrived& page);
  void on(const ListFailed& failed);
  void on(const WatchOpened&);
  void on(const FrameArrived& frame);
  void on(const StreamClosed& closed);
  void on(const Stalled&);
  void on(const TimerFired&);
  void on(const ListWanted&);
  void on(const ComparisonDue&);
  void on(const VersionTold& told);

  void begin_list(ListPlan plan);
  void relist();
  void ensure_begun(Listing& listing);
  void finish_list(const Listing& listing, const ListMeta& meta);
  void begin_watch();
  // Or asks first whether the collection is still one that it can go on with.
  void go_on();
  void take_version(const ListMeta& meta);
  void retry_watch(const Error& error);
  void stop_and_retry(const Error& error);
  void on_gone(const Error& error);
  void back_off(bool then_list, std::optional<Duration> at_least);
  void advance(const ResourceVersion& version);
  void reach();
  void emit(Emit::What what) { out_.emplace_back(Emit{what}); }
  void note(Note::What what, std::string text) { out_.emplace_back(Note{what, std::move(text)}); }

  WatchRules rules_;
  std::variant<Empty, Listing, Watching, Asking, BackingOff> state_;
  ResourceVersion version_;
  // Nobody knows what became of the server since version_: a connection to it was lost.
  bool version_in_doubt_ = false;
  // The server could not list at version_; ask for the most recent state until a list succeeds.
  bool version_unavailable_ = false;
  // The watch has worked since the last list. A 410 before that gets a delay, or list and 410 would
  // chase one another.
  bool proven_ = false;
  bool last_was_short_ = false;
  int server_errors_ = 0;
  Moment audit_due_{};
  // Versions that the server had and the watch has not told of yet, oldest first.
  struct Expected {
    ResourceVersion version;
    Moment asked{};
  };
  std::deque<Expected> expected_;
  struct Asked {
    ResourceVersion from;  // where the watch was
    Moment at{};
  };
  std::optional<Asked> asked_;
  Moment whole_at_{};
  Backoff backoff_;

  // Of the step under way.
  Moment now_{};
  double chance_ = 0;
  Effects out_;
};

}  // namespace moonfence::kube
