#include "os/system/system_error.h"

#include <cerrno>
#include <system_error>

#include "base/text.h"

namespace moonfence::os {

Error system_error(const std::string& what, int number) {
  Error error{.kind = Error::Kind::Retryable,
              .text = escaped(what) + ": " +
                      lower_cased(std::error_code(number, std::generic_category()).message()),
              .hint = {}};
  switch (number) {
    case ENOENT:
    case ENOTDIR:
      error.kind = Error::Kind::NotFound;
      break;
    case EACCES:
    case EPERM:
    case EROFS:
      error.kind = Error::Kind::Forbidden;
      error.hint = "check the permissions, and the user this process runs as";
      break;
    case EISDIR:
    case ELOOP:
    case ENAMETOOLONG:
    case ENXIO:
    case EINVAL:
      error.kind = Error::Kind::Invalid;
      break;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      error.kind = Error::Kind::Limit;
      error.hint = "make room on that file system";
      break;
    default:  // an open set: whatever else may go away by itself
      break;
  }
  return error;
}

}  // namespace moonfence::os
