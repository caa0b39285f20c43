#include "kube/watching/watch.h"

#include <algorithm>
#include <utility>

#include "base/overloaded.h"
#include "base/text.h"
#include "kube/text/status.h"

namespace moonfence::kube {
namespace {

Duration between(Duration low, Duration high, double chance) {
  return low +
         Duration(static_cast<Duration::rep>(static_cast<double>((high - low).count()) * chance));
}

std::string_view to_string(Emit::What what) {
  switch (what) {
    case Emit::What::Init:
      return "init";
    case Emit::What::InitApply:
      return "init_apply";
    case Emit::What::InitDone:
      return "init_done";
    case Emit::What::Apply:
      return "apply";
    case Emit::What::Delete:
      return "delete";
  }
  return "";
}

// 429 and an API server that cannot be reached say nothing about the version: the watch can most
// likely go on where it ended.
bool keeps_version(const Error& error) {
  return error.http_status == 429 ||
         (error.kind == Error::Kind::Retryable && error.http_status == 0);
}

}  // namespace

WatchMachine::Effects WatchMachine::step(Moment now, double chance, const WatchEvent& event,
                                         Effects room) {
  now_ = now;
  chance_ = chance;
  out_ = std::move(room);
  out_.clear();
  std::visit([this](const auto& what) { on(what); }, event);
  return std::move(out_);
}

void WatchMachine::on(const Started&) {
  relist();
}

void WatchMachine::on(const Resumed& resumed) {
  if (resumed.version.empty()) {
    relist();  // watching from "" would mean "from anywhere"
    return;
  }
  version_ = resumed.version;
  audit_due_ = now_ + between(rules_.shortest_audit, rules_.longest_audit, chance_);
  begin_watch();
}

void WatchMachine::relist() {
  begin_list(ListPlan::not_older_than(version_unavailable_ ? ResourceVersion() : version_));
}

void WatchMachine::begin_list(ListPlan plan) {
  audit_due_ = now_ + between(rules_.shortest_audit, rules_.longest_audit, chance_);
  out_.emplace_back(StartList{.query = plan.query(), .fresh = true});
  state_ = Listing{.plan = std::move(plan), .begun_at = now_};
  expected_.clear();
  asked_.reset();
}

// The listener begins a new set only when there is something to put into it.
void WatchMachine::ensure_begun(Listing& listing) {
  if (!listing.begun) {
    listing.begun = true;
    emit(Emit::What::Init);
  }
}

void WatchMachine::on(const ItemArrived&) {
  if (auto* listing = std::get_if<Listing>(&state_)) {
    ensure_begun(*listing);
    emit(Emit::What::InitApply);
  }
}

void WatchMachine::on(const PageArrived& page) {
  auto* listing = std::get_if<Listing>(&state_);
  if (listing == nullptr && !std::holds_alternative<Asking>(state_)) {
    return;
  }
  if (page.meta.resource_version.empty()) {
    // Watching from "" would mean "from anywhere".
    on(ListFailed{
        Error{.kind = Error::Kind::Malformed, .text = "the list has no resource version"}});
    return;
  }
  if (listing == nullptr) {
    take_version(page.meta);
    return;
  }
  const auto next = listing->plan.on_page(page.meta);
  if (!next) {
    on(ListFailed{next.error()});
  } else if (*next == ListPlan::Step::Page) {
    out_.emplace_back(StartList{.query = listing->plan.query()});
  } else {
    ensure_begun(*listing);
    finish_list(*listing, page.meta);
  }
}

void WatchMachine::finish_list(const Listing& listing, const ListMeta& meta) {
  const auto order = compare_versions(meta.resource_version, version_);
  if (listing.plan.is_consistent() && order && *order == std::strong_ordering::less) {
    note(Note::What::WentBack, "the list is at " + escaped(meta.resource_version.text(), 64) +
                                   ", " + escaped(version_.text(), 64) +
                                   " was seen before: restored from a backup?");
  }
  version_ = meta.resource_version;
  version_unavailable_ = false;
  version_in_doubt_ = false;
  proven_ = false;
  server_errors_ = 0;
  if (listing.plan.is_consistent()) {
    whole_at_ = listing.begun_at;
  }
  emit(Emit::What::InitDone);
  begin_watch();
}

void WatchMachine::on(const ListFailed& failed) {
  if (std::holds_alternative<Asking>(state_)) {
    stop_and_retry(failed.error);
    return;
  }
  auto* listing = std::get_if<Listing>(&state_);
  if (listing == nullptr) {
    return;
  }
  if (listing->plan.on_error(failed.error) == ListPlan::Step::Restart) {
    version_unavailable_ = true;
    note(Note::What::Expired, failed.error.text);
    listing->begun = false;
    listing->begun_at = now_;
    out_.emplace_back(StartList{.query = listing->plan.query(), .fresh = true});
    return;
  }
  note(Note::What::ListFailed, failed.error.message());
  out_.emplace_back(StopRequest{});
  // A failed audit must not blind us: the watch goes on where it was, and another audit comes.
  const bool then_list = !listing->audit;
  version_in_doubt_ = true;
  back_off(then_list, failed.error.retry_after);
}

void WatchMachine::begin_watch() {
  const auto timeout = std::chrono::duration_cast<std::chrono::seconds>(
      between(rules_.shortest_watch, rules_.longest_watch + std::chrono::seconds(1), chance_));
  out_.emplace_back(StartWatch{
      .version = version_, .timeout = timeout, .deadline = timeout + rules_.deadline_margin});
  state_ = Watching{};
}

void WatchMachine::go_on() {
  if (!version_in_doubt_) {
    begin_watch();
    return;
  }
  out_.emplace_back(StartList{.query = {{"limit", "1"}}, .version_only = true});
  state_ = Asking{};
}

void WatchMachine::take_version(const ListMeta& meta) {
  const auto order = compare_versions(meta.resource_version, version_);
  if (!order || *order == std::strong_ordering::less) {
    begin_list(ListPlan::consistent());  // tells that it went back
    return;
  }
  version_in_doubt_ = false;
  begin_watch();
}

void WatchMachine::on(const WatchOpened&) {
  if (auto* watching = std::get_if<Watching>(&state_)) {
    watching->opened = now_;
  }
}

void WatchMachine::advance(const ResourceVersion& version) {
  version_ = version;
  proven_ = true;
  server_errors_ = 0;
  reach();
}

// Nothing, where the versions cannot be compared: then comparisons prove nothing.
void WatchMachine::reach() {
  while (!expected_.empty()) {
    const auto order = compare_versions(version_, expected_.front().version);
    if (!order || *order == std::strong_ordering::less) {
      return;
    }
    whole_at_ = expected_.front().asked;
    expected_.pop_front();
  }
}

void WatchMachine::on(const ComparisonDue&) {
  const auto* watching = std::get_if<Watching>(&state_);
  if (watching == nullptr || !watching->opened) {
    return;
  }
  if (!expected_.empty() && now_ - expected_.front().asked > rules_.catch_up) {
    note(Note::What::StandsStill, "the server is at " +
                                      escaped(expected_.front().version.text(), 64) + " since " +
                                      format_duration(now_ - expected_.front().asked) +
                                      ", the watch at " + escaped(version_.text(), 64));
    begin_list(ListPlan::consistent());
    return;
  }
  asked_ = Asked{.from = version_, .at = now_};
  out_.emplace_back(AskVersion{});
}

void WatchMachine::on(const VersionTold& told) {
  const auto asked = std::exchange(asked_, std::nullopt);
  if (!asked || !std::holds_alternative<Watching>(state_)) {
    return;
  }
  const auto order = compare_versions(told.version, asked->from);
  if (!order || *order == std::strong_ordering::less) {
    begin_list(ListPlan::consistent());  // tells that it went back
    return;
  }
  expected_.push_back({.version = told.version, .asked = asked->at});
  reach();
}

void WatchMachine::on(const FrameArrived& frame) {
  auto* watching = std::get_if<Watching>(&state_);
  if (watching == nullptr) {
    return;
  }
  ++watching->frames;
  switch (frame.type) {
    case FrameArrived::Type::Added:
    case FrameArrived::Type::Modified:
      emit(Emit::What::Apply);
      advance(frame.version);
      return;
    case FrameArrived::Type::Deleted:
      emit(Emit::What::Delete);
      advance(frame.version);
      return;
    case FrameArrived::Type::Bookmark:
      advance(frame.version);
      return;
    case FrameArrived::Type::Error:
      stop_and_retry(frame.error.value_or(
          Error{.kind = Error::Kind::Malformed, .text = "an ERROR frame without a Status"}));
      return;
    case FrameArrived::Type::Undecodable:
      // Something happened that we did not understand: only a list tells what is true now.
      note(Note::What::Undecodable, frame.text);
      out_.emplace_back(StopRequest{});
      back_off(/*then_list=*/true, std::nullopt);
      return;
  }
}

void WatchMachine::stop_and_retry(const Error& error) {
  out_.emplace_back(StopRequest{});
  retry_watch(error);
}

// The server refused to watch, by its HTTP status or by an ERROR frame inside a 200.
void WatchMachine::retry_watch(const Error& error) {
  if (error.kind == Error::Kind::Gone) {
    on_gone(error);
    return;
  }
  note(Note::What::WatchFailed, error.message());
  version_in_doubt_ = version_in_doubt_ || error.http_status != 429;
  if (keeps_version(error)) {
    back_off(/*then_list=*/false, error.retry_after);
    return;
  }
  const bool server_error = error.kind == Error::Kind::Retryable && error.http_status >= 500 &&
                            !is_too_large_version(error);
  if (server_error && ++server_errors_ <= rules_.server_error_limit) {
    back_off(/*then_list=*/false, error.retry_after);
    return;
  }
  // A 403 too: an API server that has just started refuses everybody until it has read its roles.
  back_off(/*then_list=*/true, error.retry_after);
}

void WatchMachine::on_gone(const Error& error) {
  note(Note::What::Expired, error.text);
  if (proven_) {
    relist();
  } else {
    back_off(/*then_list=*/true, error.retry_after);
  }
}

void WatchMachine::on(const StreamClosed& closed) {
  const auto* watching = std::get_if<Watching>(&state_);
  if (watching == nullptr) {
    return;
  }
  if (!watching->opened) {
    retry_watch(closed.error.value_or(
        Error{.kind = Error::Kind::Retryable, .text = "the stream closed before it opened"}));
    return;
  }
  const bool is_short = now_ - *watching->opened < rules_.short_life;
  const bool failed = is_short && (watching->frames == 0 || last_was_short_);
  last_was_short_ = is_short;
  if (!is_short) {
    // Or cuts ten seconds apart would add up to a watch that is blind for a minute.
    backoff_.forget();
  }
  if (failed) {
    note(Note::What::WatchFailed, "the watch closed at once");
    version_in_doubt_ = true;
    back_off(/*then_list=*/false, std::nullopt);
    return;
  }
  proven_ = true;
  if (now_ >= audit_due_) {
    note(Note::What::Audit, "listing again although nothing is known to be wrong");
    begin_list(ListPlan::consistent());
    std::get<Listing>(state_).audit = true;
  } else {
    version_in_doubt_ = closed.error.has_value();
    go_on();
  }
}

void WatchMachine::on(const Stalled&) {
  if (std::holds_alternative<Listing>(state_) || std::holds_alternative<Asking>(state_)) {
    on(ListFailed{Error{.kind = Error::Kind::Retryable, .text = "the list fell silent"}});
    return;
  }
  const auto* watching = std::get_if<Watching>(&state_);
  if (watching == nullptr) {
    return;
  }
  note(Note::What::Stalled, watching->opened
                                ? "no bytes for " + format_duration(rules_.stall_limit)
                                : "no answer for " + format_duration(rules_.answer_stall_limit));
  version_in_doubt_ = true;
  if (watching->opened) {
    go_on();  // the start replaces the silent request
  } else {
    out_.emplace_back(StopRequest{});
    back_off(/*then_list=*/false, std::nullopt);
  }
}

void WatchMachine::back_off(bool then_list, std::optional<Duration> at_least) {
  out_.emplace_back(SetTimer{backoff_.next(now_, chance_, at_least)});
  state_ = BackingOff{.then_list = then_list};
}

void WatchMachine::on(const TimerFired&) {
  const auto* waiting = std::get_if<BackingOff>(&state_);
  if (waiting == nullptr) {
    return;
  }
  if (waiting->then_list) {
    relist();
  } else {
    go_on();
  }
}

// A list under way was begun too early to count. Nor is the end of a pause waited for: who wants
// the list has reason to believe that the server answers again, and asks once.
void WatchMachine::on(const ListWanted&) {
  version_unavailable_ = true;
  if (!std::holds_alternative<Empty>(state_)) {
    relist();
  }
}

std::string WatchMachine::text() const {
  return std::visit(
      Overloaded{[](const Empty&) { return std::string("empty"); },
                 [](const Listing& listing) { return "listing " + listing.plan.text(); },
                 [this](const Watching&) { return "watching rv=" + version_.text(); },
                 [](const Asking&) { return std::string("asking for the version"); },
                 [](const BackingOff& waiting) {
                   return std::string("backing off, then ") +
                          (waiting.then_list ? "list" : "watch");
                 }},
      state_);
}

std::string_view to_string(Note::What what) {
  switch (what) {
    case Note::What::ListFailed:
      return "list_failed";
    case Note::What::WatchFailed:
      return "watch_failed";
    case Note::What::Expired:
      return "expired";
    case Note::What::Undecodable:
      return "undecodable";
    case Note::What::Stalled:
      return "stalled";
    case Note::What::StandsStill:
      return "stands_still";
    case Note::What::Audit:
      return "audit";
    case Note::What::WentBack:
      return "went_back";
  }
  return "";
}

std::string to_string(const WatchEffect& effect) {
  return std::visit(
      Overloaded{[](const StartList& list) {
                   std::string text = "list";
                   for (const auto& [name, value] : list.query) {
                     text += ' ';
                     text += name;
                     text += '=';
                     text += value;
                   }
                   return text;
                 },
                 [](const StartWatch& watch) {
                   return "watch rv=" + watch.version.text() + " for " +
                          format_duration(watch.timeout);
                 },
                 [](const StopRequest&) { return std::string("stop"); },
                 [](const SetTimer& timer) { return "timer " + format_duration(timer.delay); },
                 [](const AskVersion&) { return std::string("ask version"); },
                 [](const Emit& emit) { return "emit " + std::string(to_string(emit.what)); },
                 [](const Note& note) { return "note " + std::string(to_string(note.what)); }},
      effect);
}

}  // namespace moonfence::kube
