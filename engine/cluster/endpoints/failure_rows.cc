#include "cluster/endpoints/failure_rows.h"

namespace moonfence::cluster {

Duration FailureRows::failed(const std::string& request, Moment now) {
  // Paths carry the names of volumes, which come and go.
  std::erase_if(rows_, [now](const auto& row) { return now - row.second.last > kForgottenAfter; });
  Row& row = rows_.try_emplace(request, Row{.first = now}).first->second;
  row.last = now;
  return now - row.first;
}

}  // namespace moonfence::cluster
