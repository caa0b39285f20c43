#include "kube/wire/list_plan.h"

#include <algorithm>

#include "kube/text/status.h"

namespace moonfence::kube {
namespace {

// 5,000,000 objects: a server that never ends its list is broken.
constexpr int kMostPages = 10'000;

bool is_decimal(const std::string& text) {
  return !text.empty() && (text == "0" || text.front() != '0') &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

ListPlan ListPlan::consistent() {
  return {};
}

ListPlan ListPlan::not_older_than(ResourceVersion version) {
  ListPlan plan;
  plan.paged_ = version.empty();
  plan.version_ = std::move(version);
  return plan;
}

Query ListPlan::query() const {
  Query query;
  if (paged_) {
    query.emplace_back("limit", std::to_string(pages_ == 0 ? first_limit_ : kPageLimit));
  }
  if (!token_.empty()) {
    // The token carries the version; the server refuses both together.
    query.emplace_back("continue", token_);
  } else if (!version_.empty()) {
    query.emplace_back("resourceVersion", version_.text());
    query.emplace_back("resourceVersionMatch", "NotOlderThan");
  }
  return query;
}

Result<ListPlan::Step> ListPlan::on_page(const ListMeta& meta) {
  ++pages_;
  if (meta.continue_token.empty()) {
    return Step::Done;
  }
  if (meta.continue_token == token_ || pages_ >= kMostPages) {
    return failure(Error::Kind::Malformed, "the server's list does not end");
  }
  token_ = meta.continue_token;
  return Step::Page;
}

ListPlan::Step ListPlan::on_error(const Error& error) {
  const bool gone = error.kind == Error::Kind::Gone;
  if (!token_.empty() && gone) {
    // The token expired under us. The 410 offers a new one for an inconsistent rest; a fencer wants
    // one picture of one moment, so everything is read again at once.
    *this = ListPlan();
    paged_ = false;
    return Step::Restart;
  }
  if (!version_.empty() && (gone || is_too_large_version(error))) {
    *this = ListPlan();
    return Step::Restart;
  }
  return Step::Failed;
}

std::string ListPlan::text() const {
  if (!version_.empty()) {
    return "rv=" + version_.text();
  }
  return paged_ ? "page " + std::to_string(pages_ + 1) : "unpaged";
}

std::optional<std::strong_ordering> compare_versions(const ResourceVersion& a,
                                                     const ResourceVersion& b) {
  if (!is_decimal(a.text()) || !is_decimal(b.text())) {
    return std::nullopt;
  }
  if (a.text().size() != b.text().size()) {
    return a.text().size() <=> b.text().size();
  }
  return a.text() <=> b.text();
}

}  // namespace moonfence::kube
