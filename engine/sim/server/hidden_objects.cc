#include "sim/server/hidden_objects.h"

#include <algorithm>
#include <array>

#include "sim/server/answers.h"
#include "sim/server/target.h"
#include "sim/store/refusals.h"

namespace moonfence::sim {
namespace {

bool concerns(const std::string& what, const Route& route) {
  const std::string_view resource = route.kind->resource;
  const std::string_view word = resource == "volumeattachments" ? "attachments" : resource;
  const auto words = hidable_objects();
  return std::find(words.begin(), words.end(), word) != words.end() &&
         (what == "all" || what == word);
}

}  // namespace

std::span<const std::string_view> hidable_objects() {
  static constexpr std::array<std::string_view, 4> kWords = {"nodes", "pods", "attachments", "all"};
  return kWords;
}

std::optional<ServerAnswer> hidden_answer(std::vector<HiddenObjects>& hidden, const Route& route,
                                          Moment now) {
  const auto found =
      std::find_if(hidden.begin(), hidden.end(), [&route, now](const HiddenObjects& each) {
        return now < each.until && each.times > 0 && concerns(each.what, route);
      });
  if (found == hidden.end()) {
    return std::nullopt;
  }
  --found->times;
  return refusal_answer(not_found(*route.kind, route.name));
}

}  // namespace moonfence::sim
