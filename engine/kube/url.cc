#include "kube/url.h"

#include "base/text.h"

namespace moonfence::kube {
namespace {

bool stands_for_itself(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '.' || c == '_' || c == '~';
}

}  // namespace

std::string percent_encoded(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    if (stands_for_itself(c)) {
      out += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      out += '%';
      out += kDigits[byte >> 4U];
      out += kDigits[byte & 0x0FU];
    }
  }
  return out;
}

Result<std::string> path_segment(std::string_view name) {
  if (name.empty()) {
    return failure(Error::Kind::Invalid, "an empty name cannot be part of an API path");
  }
  if (name == "." || name == ".." || name.find_first_of("/%") != std::string_view::npos) {
    return failure(Error::Kind::Invalid,
                   "name \"" + escaped(name, 128) + "\" cannot be part of an API path",
                   "names are not '.' or '..' and contain neither '/' nor '%'");
  }
  return percent_encoded(name);
}

Result<std::string> node_path(const NodeName& name) {
  auto segment = path_segment(name.text());
  if (!segment) {
    return failure(std::move(segment.error()).within("node"));
  }
  return "/api/v1/nodes/" + *segment;
}

Result<std::string> pod_path(const PodRef& ref) {
  if (ref.space.empty()) {
    return failure(Error::Kind::Invalid, "pod \"" + escaped(ref.name, 128) + "\" has no namespace");
  }
  auto collection = pods_path(ref.space);
  if (!collection) {
    return collection;
  }
  auto segment = path_segment(ref.name);
  if (!segment) {
    return failure(std::move(segment.error()).within("pod"));
  }
  return *collection + "/" + *segment;
}

Result<std::string> pods_path(const Namespace& space) {
  if (space.empty()) {
    return std::string("/api/v1/pods");
  }
  auto segment = path_segment(space.text());
  if (!segment) {
    return failure(std::move(segment.error()).within("namespace"));
  }
  return "/api/v1/namespaces/" + *segment + "/pods";
}

std::string encoded_query(const Query& query) {
  std::string out;
  for (const auto& [name, value] : query) {
    if (!out.empty()) {
      out += '&';
    }
    out += percent_encoded(name) + "=" + percent_encoded(value);
  }
  return out;
}

}  // namespace moonfence::kube
