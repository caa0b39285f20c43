#include "kube/watching/watcher.h"

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/text.h"
#include "kube/text/frames.h"
#include "kube/text/items.h"
#include "kube/text/json.h"
#include "kube/text/object_parser.h"
#include "kube/text/status.h"

namespace moonfence::kube {
namespace {

using nlohmann::json;

// 108 MB (5,000 nodes) at 2 Mbit/s; silence is noticed much sooner.
constexpr Duration kListTimeout = std::chrono::minutes(10);
constexpr Duration kVersionTimeout = std::chrono::seconds(10);

FrameArrived undecodable(std::string text) {
  return FrameArrived{.type = FrameArrived::Type::Undecodable, .text = std::move(text)};
}

std::optional<FrameArrived::Type> frame_type(std::string_view word) {
  using Type = FrameArrived::Type;
  if (word == "ADDED") {
    return Type::Added;
  }
  if (word == "MODIFIED") {
    return Type::Modified;
  }
  if (word == "DELETED") {
    return Type::Deleted;
  }
  if (word == "BOOKMARK") {
    return Type::Bookmark;
  }
  if (word == "ERROR") {
    return Type::Error;
  }
  return std::nullopt;
}

// What a frame says, and in `object` the object it carries.
FrameArrived read_frame(ObjectParser& parser, std::string_view text, json& object) {
  auto parsed = parser.parse(text);
  if (!parsed) {
    return undecodable(parsed.error().text);
  }
  Fields fields(*parsed);
  const std::string word = fields.string({"type"});
  const auto type = frame_type(word);
  if (fields.object({"object"}) == nullptr || !type) {
    return undecodable("a watch frame of type \"" + escaped(word, 64) + "\" " +
                       (type ? "without an object" : "that nobody knows"));
  }
  object = std::move((*parsed)["object"]);
  if (*type == FrameArrived::Type::Error) {
    return FrameArrived{.type = *type, .error = error_from_status(object)};
  }
  Fields content(object, "object");
  FrameArrived frame{.type = *type,
                     .version = ResourceVersion(content.required({"metadata", "resourceVersion"}))};
  return content.fault() ? undecodable(content.fault()->text) : frame;
}

}  // namespace

class Watcher::Impl final : public StreamSink {
 public:
  Impl(loop::Loop& loop, Caller& caller, port::Random& random, port::Log& log, WatchTarget target,
       WatchListener& listener, WatchRules rules)
      : loop_(loop),
        caller_(caller),
        random_(random),
        log_(log),
        target_(std::move(target)),
        listener_(listener),
        compare_every_(rules.compare_every),
        stall_limit_(rules.stall_limit),
        answer_stall_limit_(rules.answer_stall_limit),
        machine_(rules),
        item_parser_(target_.omitted),
        frame_parser_(within_frames(target_.omitted)) {}

  void start() {
    compare_later();
    feed(Started{});
  }
  void start_from(ResourceVersion version) {
    compare_later();
    feed(Resumed{std::move(version)});
  }
  void list_anew() { feed(ListWanted{}); }
  [[nodiscard]] const WatchHealth& health() const { return health_; }

  void on_open() override {
    if (!listing_) {
      health_.connected = true;
      health_.last_error.clear();
    }
    hear();
    if (!listing_) {
      feed(WatchOpened{});
    }
  }

  void on_bytes(std::string_view bytes) override {
    hear();
    if (listing_) {
      take_list(bytes);
    } else {
      take_frames(bytes);
    }
  }

  void on_close(const Result<void>& outcome) override {
    stall_timer_.cancel();
    health_.connected = false;
    if (!listing_) {
      feed(StreamClosed{outcome ? std::nullopt : std::optional<Error>(outcome.error())});
      return;
    }
    if (!outcome) {
      feed(ListFailed{outcome.error()});
      return;
    }
    auto meta = items_.finish();
    if (!meta) {
      feed(ListFailed{std::move(meta.error())});
      return;
    }
    health_.last_heard = loop_.now();
    feed(PageArrived{*std::move(meta)});
  }

 private:
  // False when something in it ended what the caller is reading from: the watcher was destroyed by
  // its listener or another request was started.
  // `object`: null when there is none, or none that would be news.
  bool feed(const WatchEvent& event, const json* object = nullptr) {
    const std::weak_ptr<bool> life = life_;
    const std::uint64_t request = request_;
    WatchMachine::Effects effects =
        machine_.step(loop_.now(), random_.unit(), event, std::exchange(room_, {}));
    health_.whole_at = machine_.whole_at();
    for (const WatchEffect& effect : effects) {
      std::visit([this, object](const auto& what) { perform(what, object); }, effect);
      if (life.expired()) {
        return false;
      }
    }
    room_ = std::move(effects);
    return request == request_;
  }

  void take_list(std::string_view bytes) {
    if (auto taken = items_.append(bytes); !taken) {
      feed(ListFailed{std::move(taken.error())});
      return;
    }
    while (auto text = items_.next()) {
      const auto item = item_parser_.parse(*text);
      if (!item) {
        feed(ListFailed{Error(item.error()).within("an item of the list")});
        return;
      }
      if (!feed(ItemArrived{}, &*item)) {
        return;
      }
    }
  }

  void take_frames(std::string_view bytes) {
    if (auto taken = frames_.append(bytes); !taken) {
      feed(undecodable(taken.error().text));
      return;
    }
    while (auto text = frames_.next()) {
      json object;
      const auto known = target_.only_news ? without_news(*text) : std::nullopt;
      const FrameArrived frame = known ? *known : read_frame(frame_parser_, *text, object);
      count(frame);
      if (!feed(frame, known ? nullptr : &object)) {
        return;
      }
    }
  }

  // The frame, when the listener was told its object already in these words: a node says every few
  // seconds that it lives, which changes nothing that anybody looks at.
  std::optional<FrameArrived> without_news(std::string_view text) {
    using Type = FrameArrived::Type;
    const auto glance = frame_parser_.glance(text);
    const auto type = glance ? frame_type(glance->type) : std::nullopt;
    if (type == Type::Bookmark) {
      return std::nullopt;
    }
    if (!type || glance->name.empty()) {
      told_.clear();  // whatever it is about
      return std::nullopt;
    }
    const auto told = told_.find(glance->name);
    if (type != Type::Added && type != Type::Modified) {
      if (told != told_.end()) {
        told_.erase(told);
      }
      return std::nullopt;
    }
    if (told == told_.end()) {
      told_.emplace(glance->name, glance->content);
      return std::nullopt;
    }
    if (std::exchange(told->second, glance->content) != glance->content) {
      return std::nullopt;
    }
    return FrameArrived{.type = *type, .version = ResourceVersion(std::string(glance->version))};
  }

  void count(const FrameArrived& frame) {
    health_.last_heard = loop_.now();
    switch (frame.type) {
      case FrameArrived::Type::Added:
      case FrameArrived::Type::Modified:
      case FrameArrived::Type::Deleted:
        ++health_.events;
        return;
      case FrameArrived::Type::Bookmark:
        ++health_.bookmarks;
        return;
      case FrameArrived::Type::Error:
      case FrameArrived::Type::Undecodable:
        return;
    }
  }

  void perform(const StartList& list, const json*) {
    if (list.fresh && health_.synced) {
      ++health_.relists;
    }
    items_ = ItemSplitter();
    if (list.version_only) {
      open(list.query, port::Lane::Writes, kVersionTimeout, /*listing=*/true);
    } else {
      open(selected(list.query), port::Lane::Bulk, kListTimeout, /*listing=*/true);
    }
  }

  void perform(const StartWatch& watch, const json*) {
    ++health_.restarts;
    frames_ = FrameSplitter();
    open(selected({{"watch", "1"},
                   {"allowWatchBookmarks", "true"},
                   {"resourceVersion", watch.version.text()},
                   {"timeoutSeconds", std::to_string(watch.timeout.count())}}),
         port::Lane::Watches, watch.deadline, /*listing=*/false);
  }

  void perform(const StopRequest&, const json*) {
    ++request_;
    health_.connected = false;
    stall_timer_.cancel();
    call_.reset();
  }

  void perform(const AskVersion&, const json*) {
    compare_call_ = caller_.call(ApiRequest{.path = target_.path,
                                            .query = selected_of_none(),
                                            .body = {},
                                            .content_type = {},
                                            .lane = port::Lane::Writes,
                                            .timeout = kVersionTimeout,
                                            .may_send = {}},
                                 [this](const Result<ApiReply>& reply) { version_told(reply); });
  }

  void version_told(const Result<ApiReply>& reply) {
    if (!reply) {
      return;  // nothing is proven; it is asked again
    }
    Fields fields(reply->body);
    ResourceVersion version(fields.required({"metadata", "resourceVersion"}));
    if (!fields.fault()) {
      feed(VersionTold{std::move(version)});
    }
  }

  // A consistent list without an item: of a name that nothing has.
  [[nodiscard]] Query selected_of_none() const {
    const std::string before = target_.field_selector.empty() ? "" : target_.field_selector + ",";
    return {{"fieldSelector", before + "metadata.name=moonfence-compares-versions"}};
  }

  void compare_later() {
    if (!target_.read_live) {
      compare_timer_ = loop_.after(compare_every_, [this] {
        compare_later();
        feed(ComparisonDue{});
      });
    }
  }

  void perform(const SetTimer& timer, const json*) {
    retry_timer_ = loop_.after(timer.delay, [this] { feed(TimerFired{}); });
  }

  // The last thing done in each case is the listener's call: it may destroy this.
  void perform(const Emit& emit, const json* object) {
    switch (emit.what) {
      case Emit::What::Init:
        told_.clear();  // another set begins
        listener_.on_init();
        return;
      case Emit::What::InitApply:
        listener_.on_init_apply(*object);
        return;
      case Emit::What::InitDone:
        health_.synced = true;
        ++health_.lists;
        health_.last_error.clear();
        listener_.on_init_done();
        return;
      case Emit::What::Apply:
        if (object != nullptr) {
          listener_.on_apply(*object);
        }
        return;
      case Emit::What::Delete:
        listener_.on_delete(*object);
        return;
    }
  }

  void perform(const Note& note, const json*) {
    using What = Note::What;
    switch (note.what) {
      case What::ListFailed:
      case What::WatchFailed:
        health_.last_error = note.text;
        break;
      case What::Undecodable:
        ++health_.undecodable;
        break;
      case What::Stalled:
      case What::StandsStill:
        ++health_.stalls;
        break;
      case What::WentBack:
        ++health_.rewinds;
        caller_.went_back();
        break;
      case What::Expired:
      case What::Audit:
        break;
    }
    // A fault that lasts is worth one line, not one an attempt.
    const bool is_new = note.text != last_noted_;
    last_noted_ = note.text;
    const bool routine = note.what == What::Audit || note.what == What::Expired || !is_new;
    log_.write(routine ? port::Log::Level::Debug : port::Log::Level::Warning, "watch_trouble",
               {{"resource", target_.resource},
                {"what", to_string(note.what)},
                {"text", note.text},
                {"state", machine_.text()}});
  }

  [[nodiscard]] Query selected(Query query) const {
    if (!target_.field_selector.empty()) {
      query.emplace_back("fieldSelector", target_.field_selector);
    }
    if (!target_.label_selector.empty()) {
      query.emplace_back("labelSelector", target_.label_selector);
    }
    return query;
  }

  void open(Query query, port::Lane lane, Duration timeout, bool listing) {
    perform(StopRequest{}, nullptr);
    listing_ = listing;
    hear();
    call_ = caller_.stream(ApiRequest{.path = target_.path,
                                      .query = std::move(query),
                                      .body = {},
                                      .content_type = {},
                                      .lane = lane,
                                      .timeout = timeout,
                                      .may_send = {}},
                           *this);
  }

  // A timer that is set already looks again when it fires: bytes come by the thousand.
  void hear() {
    stalls_at_ =
        loop_.now() + (listing_ || !health_.connected ? answer_stall_limit_ : stall_limit_);
    if (!stall_timer_.pending()) {
      watch_silence();
    }
  }

  void watch_silence() {
    stall_timer_ = loop_.after(stalls_at_ - loop_.now(), [this] {
      if (loop_.now() < stalls_at_) {
        watch_silence();
        return;
      }
      health_.connected = false;
      feed(Stalled{});
    });
  }

  loop::Loop& loop_;
  Caller& caller_;
  port::Random& random_;
  port::Log& log_;
  const WatchTarget target_;
  WatchListener& listener_;
  const Duration compare_every_;
  const Duration stall_limit_;
  const Duration answer_stall_limit_;
  WatchMachine machine_;
  WatchHealth health_;
  ItemSplitter items_;
  ObjectParser item_parser_;
  FrameSplitter frames_;
  ObjectParser frame_parser_;
  // What the listener was told last of the object of a name, since the last list.
  std::map<std::string, std::array<unsigned char, 32>, std::less<>> told_;
  WatchMachine::Effects room_;
  bool listing_ = false;
  std::uint64_t request_ = 0;  // which one is running
  std::string last_noted_;
  loop::Timer stall_timer_;
  Moment stalls_at_{};
  loop::Timer retry_timer_;
  loop::Timer compare_timer_;
  CallHandle compare_call_;
  // Tells, after a listener's call, whether it has destroyed us; a plain flag would die with us.
  std::shared_ptr<bool> life_ = std::make_shared<bool>(true);
  CallHandle call_;
};

Watcher::Watcher(loop::Loop& loop, Caller& caller, port::Random& random, port::Log& log,
                 WatchTarget target, WatchListener& listener, WatchRules rules)
    : impl_(std::make_unique<Impl>(loop, caller, random, log, std::move(target), listener, rules)) {
}

Watcher::~Watcher() = default;

void Watcher::start() {
  impl_->start();
}

void Watcher::start_from(ResourceVersion version) {
  impl_->start_from(std::move(version));
}

void Watcher::list_anew() {
  impl_->list_anew();
}

const WatchHealth& Watcher::health() const {
  return impl_->health();
}

}  // namespace moonfence::kube
