#include "kube/wire/url.h"

#include <optional>

#include "base/text.h"

namespace moonfence::kube {
namespace {

bool stands_for_itself(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '.' || c == '_' || c == '~';
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') {
    return c - '0';
  }
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

// The byte that "%XX" stands for at a place of a text.
std::optional<char> byte_at(std::string_view text, std::size_t place) {
  if (text.size() - place < 3) {
    return std::nullopt;
  }
  const int high = hex_digit(text[place + 1]);
  const int low = hex_digit(text[place + 2]);
  if (high < 0 || low < 0) {
    return std::nullopt;
  }
  return static_cast<char>(high * 16 + low);
}

std::string decoded(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = text[i] == '%' ? byte_at(text, i) : std::nullopt;
    out += byte.value_or(text[i]);
    i += byte ? 2U : 0U;
  }
  return out;
}

Result<std::string> collection_in(const Namespace& space, std::string_view collection) {
  auto segment = path_segment(space.text());
  if (!segment) {
    return failure(std::move(segment.error()).within("namespace"));
  }
  std::string path = "/api/v1/namespaces/" + *segment + "/";
  path.append(collection);
  return path;
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

bool is_built_path(std::string_view path) {
  if (!path.starts_with('/')) {
    return false;
  }
  for (std::size_t i = 0; i < path.size(); ++i) {
    if (path[i] == '%') {
      if (!byte_at(path, i)) {
        return false;
      }
      i += 2;
    } else if (path[i] != '/' && !stands_for_itself(path[i])) {
      return false;
    }
  }
  return true;
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
  return collection_in(space, "pods");
}

Result<std::string> claims_path(const Namespace& space) {
  return collection_in(space, "persistentvolumeclaims");
}

Result<std::string> events_path(const Namespace& space) {
  return collection_in(space, "events");
}

Result<std::string> volume_path(std::string_view name) {
  auto segment = path_segment(name);
  if (!segment) {
    return failure(std::move(segment.error()).within("persistent volume"));
  }
  return "/api/v1/persistentvolumes/" + *segment;
}

Result<std::string> attachment_path(std::string_view name) {
  auto segment = path_segment(name);
  if (!segment) {
    return failure(std::move(segment.error()).within("volume attachment"));
  }
  return "/apis/storage.k8s.io/v1/volumeattachments/" + *segment;
}

Result<std::string> objects_path(std::string_view api_version, std::string_view resource,
                                 const Namespace& space) {
  const std::size_t slash = api_version.find('/');
  const auto version = path_segment(api_version.substr(slash == api_version.npos ? 0 : slash + 1));
  const auto group = slash == api_version.npos ? Result<std::string>(std::string())
                                               : path_segment(api_version.substr(0, slash));
  const auto kind = path_segment(resource);
  const auto where =
      space.empty() ? Result<std::string>(std::string()) : path_segment(space.text());
  for (const auto* part : {&version, &group, &kind, &where}) {
    if (!*part) {
      return failure(Error(part->error()).within("object"));
    }
  }
  const std::string root = group->empty() ? "/api/" : "/apis/" + *group + "/";
  return root + *version + (where->empty() ? "/" : "/namespaces/" + *where + "/") + *kind;
}

// Without a namespace it is an object of the cluster; a list it never is.
Result<std::string> object_path(std::string_view api_version, std::string_view resource,
                                const Namespace& space, std::string_view name) {
  auto path = objects_path(api_version, resource, space);
  const auto who = path_segment(name);
  if (path && !who) {
    return failure(Error(who.error()).within("object"));
  }
  return path ? Result<std::string>(*path + "/" + *who) : path;
}

std::string selector_value(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\' || c == ',' || c == '=') {
      out += '\\';
    }
    out += c;
  }
  return out;
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

Query decoded_query(std::string_view text) {
  Query query;
  if (text.empty()) {
    return query;
  }
  for (const std::string_view pair : split(text, '&')) {
    const std::size_t middle = pair.find('=');
    query.emplace_back(decoded(pair.substr(0, middle)),
                       middle == pair.npos ? std::string() : decoded(pair.substr(middle + 1)));
  }
  return query;
}

}  // namespace moonfence::kube
