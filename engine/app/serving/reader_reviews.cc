#include "app/serving/reader_reviews.h"

#include <algorithm>

#include "base/sha256.h"

namespace moonfence::app {

using Standing = ReaderVerdict::Standing;

void ReaderReviews::ask(const std::string& token, const std::string& path, Done done) {
  const Key key = {sha256_hex(token), path};
  if (const auto known = remembered_.find(key); known != remembered_.end()) {
    if (loop_.now() < known->second.until) {
      done(known->second.verdict);
      return;
    }
    remembered_.erase(known);
  }
  if (const auto asked = questions_.find(key); asked != questions_.end()) {
    asked->second.waiting.push_back(std::move(done));
    return;
  }
  if (questions_.size() >= kQuestions) {
    done({.standing = Standing::Undecidable});
    return;
  }
  Question& question = questions_[key];
  question.token = token;
  question.waiting.push_back(std::move(done));
  queue_.push_back(key);
  start_next();
}

void ReaderReviews::start_next() {
  while (!queue_.empty() && questions_.size() - queue_.size() < kAtOnce) {
    if (!pace_.take(loop_.now())) {
      next_ = loop_.after(pace_.wait(loop_.now()), [this] { start_next(); });
      return;
    }
    const Key key = queue_.front();
    queue_.pop_front();
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
  if (!failing_) {
    failing_ = true;
    log_.warning("readers_not_reviewed", {{"error", error.message()}});
  }
  answer(key, {.standing = Standing::Undecidable});
}

void ReaderReviews::answer(const Key& key, const ReaderVerdict& verdict) {
  if (verdict.standing != Standing::Undecidable) {
    failing_ = false;
    remember(key, verdict);
  }
  const auto question = questions_.extract(key);
  start_next();
  for (const Done& done : question.mapped().waiting) {
    done(verdict);
  }
}

// Where there is no room, what ends soonest goes: refusals, of which a stranger can make many.
void ReaderReviews::remember(const Key& key, const ReaderVerdict& verdict) {
  if (remembered_.size() >= kRemembered) {
    remembered_.erase(std::min_element(
        remembered_.begin(), remembered_.end(),
        [](const auto& a, const auto& b) { return a.second.until < b.second.until; }));
  }
  const bool allowed = verdict.standing == Standing::Allowed;
  remembered_[key] = {verdict, loop_.now() + (allowed ? kAllowedFor : kRefusedFor)};
}

}  // namespace moonfence::app
