#include "app/fencer_check/list_pages.h"

#include <utility>

namespace moonfence::app {

using nlohmann::json;

namespace {

constexpr const char* kWhose = "is --kubeconfig that of a Kubernetes API server?";

Error broken(const std::string& what, const std::string& how) {
  return {.kind = Error::Kind::Malformed,
          .text = "the API server's list of " + what + " " + how,
          .hint = kWhose};
}

// Where the next page begins; "" there is none.
Result<std::string> token_of(const json& page, const std::string& what) {
  static const json::json_pointer at("/metadata/continue");
  if (!page.contains(at) || page.at(at).is_null()) {
    return std::string();
  }
  if (!page.at(at).is_string()) {
    return failure(broken(what, "does not say how it goes on"));
  }
  return page.at(at).get<std::string>();
}

}  // namespace

Result<void> each_item(const GetJson& get, const std::string& path, const kube::Query& selectors,
                       const std::string& what,
                       const std::function<Result<void>(const json&)>& take) {
  constexpr int kMostPages = 10000;
  std::string token;
  for (int i = 0; i < kMostPages; ++i) {
    kube::Query query = selectors;
    query.emplace_back("limit", std::to_string(kPageItems));
    if (!token.empty()) {
      query.emplace_back("continue", token);
    }
    const auto page = get(path, query);
    if (!page) {
      return failure(Error(page.error()));
    }
    const auto items = page->is_object() ? page->find("items") : page->end();
    if (!page->is_object() || items == page->end() || !items->is_array()) {
      return failure(broken(what, "has no items"));
    }
    for (const json& item : *items) {
      if (auto taken = take(item); !taken) {
        return taken;
      }
    }
    auto next = token_of(*page, what);
    if (!next) {
      return failure(std::move(next.error()));
    }
    if (next->empty()) {
      return {};
    }
    if (*next == token) {
      break;
    }
    token = *std::move(next);
  }
  return failure(broken(what, "does not end"));
}

Result<void> each_item_slowly(const GetJson& get, const std::string& path, const std::string& what,
                              const std::function<Result<void>(const json&)>& take,
                              const std::function<std::size_t()>& taken) {
  while (true) {
    const std::size_t before = taken();
    auto done = each_item(get, path, {}, what, take);
    if (done || done.error().kind != Error::Kind::Gone || taken() == before) {
      return done;
    }
  }
}

}  // namespace moonfence::app
