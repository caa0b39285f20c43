#include "app/serving/reader_reviews.h"

#include <algorithm>
#include <utility>

#include "base/sha256.h"

namespace moonfence::app {

using Standing = ReaderVerdict::Standing;

ReaderToken::ReaderToken(std::string shown) : text(std::move(shown)), sum(sha256_hex(text)) {}

void ReaderReviews::ask(const ReaderToken& token, const std::string& path, Done done) {
  drop_old();
  const Moment now = loop_.now();
  const Key key = {token.sum, path};
  auto known = remembered_.find(key);
  if (known != remembered_.end() && known->second.until <= now) {
    remembered_.erase(known);
    known = remembered_.end();
  }
  const bool was_allowed =
      known != remembered_.end() && known->second.verdict.standing == Standing::Allowed;
  const bool fresh = known != remembered_.end() && now < known->second.fresh_until;
  if (fresh) {
    const ReaderVerdict verdict = known->second.verdict;
    if (was_allowed && known->second.fresh_until <= now + kAskedAhead) {
      (void)enqueue(key, token.text, was_allowed);
      start_next();
    }
    done(verdict);
    return;
  }
  if (!enqueue(key, token.text, was_allowed)) {
    done({.standing = Standing::Undecidable});
    return;
  }
  questions_.at(key).waiting.push_back(std::move(done));
  start_next();
}

// False: too many wait. start_next() begins with it.
bool ReaderReviews::enqueue(const Key& key, const std::string& token, bool was_allowed) {
  if (questions_.contains(key)) {
    return true;
  }
  // A stranger has no claim on the places of those whom we let in.
  if (!was_allowed && questions_.size() >= kQuestions) {
    return false;
  }
  Question& question = questions_[key];
  question.token = token;
  question.asked = loop_.now();
  (was_allowed ? renewals_ : queue_).push_back(key);
  return true;
}

// Nobody waits for these any more.
void ReaderReviews::drop_old() {
  while (!queue_.empty() && questions_.at(queue_.front()).asked + kLongestWait <= loop_.now()) {
    const Key key = queue_.front();
    queue_.pop_front();
    conclude(key, {.standing = Standing::Undecidable});
  }
}

// The queue whose turn it is; null: none.
std::deque<ReaderReviews::Key>* ReaderReviews::next_queue() {
  const std::size_t running = questions_.size() - queue_.size() - renewals_.size();
  if (!renewals_.empty()) {
    return running < kAtOnce + kRenewalsAtOnce ? &renewals_ : nullptr;
  }
  return !queue_.empty() && running < kAtOnce ? &queue_ : nullptr;
}

void ReaderReviews::start_next() {
  drop_old();
  while (std::deque<Key>* queue = next_queue()) {
    if (!pace_.take(loop_.now())) {
      next_ = loop_.after(pace_.wait(loop_.now()), [this] { start_next(); });
      return;
    }
    const Key key = queue->front();
    queue->pop_front();
    start(key);
  }
}

void ReaderReviews::start(const Key& key) {
  Question& question = questions_.at(key);
  question.call = kube::review_token(
      caller_, question.token,
      [this, key](const Result<std::optional<kube::ReviewedUser>>& user) { on_user(key, user); });
  question.token.clear();
}

void ReaderReviews::on_user(const Key& key, const Result<std::optional<kube::ReviewedUser>>& user) {
  if (!user) {
    fail(key, user.error());
  } else if (!*user) {
    answer(key, {.standing = Standing::Stranger});
  } else {
    Question& question = questions_.at(key);
    question.user = (*user)->name;
    question.call =
        kube::review_access(caller_, **user, key.second,
                            [this, key](const Result<bool>& allowed) { on_access(key, allowed); });
  }
}

void ReaderReviews::on_access(const Key& key, const Result<bool>& allowed) {
  if (!allowed) {
    fail(key, allowed.error());
    return;
  }
  answer(key, {.standing = *allowed ? Standing::Allowed : Standing::NotAllowed,
               .user = questions_.at(key).user});
}

void ReaderReviews::fail(const Key& key, const Error& error) {
  const bool told = failed_at_ && loop_.now() < *failed_at_ + kQuiet;
  failed_at_ = loop_.now();
  if (!told) {
    log_.warning("readers_not_reviewed", {{"error", error.message()}});
  }
  answer(key, {.standing = Standing::Undecidable});
}

void ReaderReviews::answer(const Key& key, const ReaderVerdict& verdict) {
  ReaderVerdict told = verdict;
  if (verdict.standing != Standing::Undecidable) {
    remember(key, verdict);
  } else if (const auto known = remembered_.find(key);
             known != remembered_.end() && known->second.verdict.standing == Standing::Allowed &&
             loop_.now() < known->second.until) {
    // Nobody has said no. Asked again soon, and until kAllowedBlind is over.
    Remembered& kept = known->second;
    kept.fresh_until = std::max(kept.fresh_until, std::min(loop_.now() + kRefusedFor, kept.until));
    told = kept.verdict;
  }
  conclude(key, told);
  start_next();
}

void ReaderReviews::conclude(const Key& key, const ReaderVerdict& verdict) {
  const auto question = questions_.extract(key);
  for (const Done& done : question.mapped().waiting) {
    done(verdict);
  }
}

// Where there is no room, what ends soonest goes: refusals, of which a stranger can make many.
void ReaderReviews::remember(const Key& key, const ReaderVerdict& verdict) {
  if (remembered_.size() >= kRemembered && !remembered_.contains(key)) {
    remembered_.erase(std::min_element(
        remembered_.begin(), remembered_.end(),
        [](const auto& a, const auto& b) { return a.second.until < b.second.until; }));
  }
  const Moment now = loop_.now();
  if (verdict.standing == Standing::Allowed) {
    remembered_[key] = {verdict, now + kAllowedFor, now + kAllowedFor + kAllowedBlind};
  } else {
    remembered_[key] = {verdict, now + kRefusedFor, now + kRefusedFor};
  }
}

}  // namespace moonfence::app
