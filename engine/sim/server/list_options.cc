#include "sim/server/list_options.h"

#include <array>
#include <charconv>
#include <utility>
#include <vector>

#include "sim/store/fields.h"
#include "sim/store/refusals.h"

namespace moonfence::sim {
namespace {

constexpr std::string_view kAlphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

std::string to_base64url(std::string_view bytes) {
  std::string out;
  std::uint32_t held = 0;
  unsigned bits = 0;
  for (const char c : bytes) {
    held = held << 8U | static_cast<std::uint8_t>(c);
    bits += 8;
    while (bits >= 6) {
      bits -= 6;
      out += kAlphabet[held >> bits & 63U];
    }
  }
  if (bits > 0) {
    out += kAlphabet[held << (6 - bits) & 63U];
  }
  return out;
}

std::string from_base64url(std::string_view text) {
  std::string out;
  std::uint32_t held = 0;
  unsigned bits = 0;
  for (const char c : text) {
    const auto value = kAlphabet.find(c);
    if (value == std::string_view::npos) {
      break;  // padding, or nothing that we wrote
    }
    held = held << 6U | static_cast<std::uint32_t>(value);
    bits += 6;
    if (bits >= 8) {
      bits -= 8;
      out += static_cast<char>(held >> bits & 0xFFU);
    }
  }
  return out;
}

template <class Number>
std::optional<Number> number_of(const std::string& text) {
  Number value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(value)
                                                                  : std::nullopt;
}

struct Complaint {
  std::string_view reason;
  std::string text;
};

ApiFault refused_options(const std::vector<Complaint>& complaints) {
  ApiFault out{.code = 422,
               .reason = "Invalid",
               .message = "ListOptions.meta.k8s.io \"\" is invalid: ",
               .details = {{"group", "meta.k8s.io"}, {"kind", "ListOptions"}}};
  std::string all;
  for (const Complaint& each : complaints) {
    if (!all.empty()) {
      all += ", ";
    }
    all += "resourceVersionMatch: ";
    all += each.text;
    out.details["causes"].push_back(
        {{"reason", each.reason}, {"message", each.text}, {"field", "resourceVersionMatch"}});
  }
  out.message += complaints.size() > 1 ? "[" + all + "]" : all;
  return out;
}

// How the parameters may be combined (apimachinery: ValidateListOptions).
std::vector<Complaint> complaints_about(const Target& target, bool watch) {
  constexpr std::string_view kForbidden = "FieldValueForbidden";
  std::vector<Complaint> out;
  const std::string& match = target.value("resourceVersionMatch");
  const std::string& version = target.value("resourceVersion");
  if (match.empty()) {
    return out;
  }
  const auto forbid = [&out, kForbidden](std::string_view why) {
    out.push_back({kForbidden, "Forbidden: " + std::string(why)});
  };
  if (watch) {
    forbid("resourceVersionMatch is forbidden for watch");
  }
  if (version.empty()) {
    forbid("resourceVersionMatch is forbidden unless resourceVersion is provided");
  }
  if (!target.value("continue").empty()) {
    forbid("resourceVersionMatch is forbidden when continue is provided");
  }
  if (match != "Exact" && match != "NotOlderThan") {
    out.push_back({"FieldValueNotSupported", "Unsupported value: \"" + match +
                                                 "\": supported values: \"Exact\", "
                                                 "\"NotOlderThan\", \"\""});
  }
  if (match == "Exact" && version == "0") {
    forbid("resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"");
  }
  return out;
}

std::optional<ApiFault> read_number(const Target& target, std::string_view name,
                                    std::optional<std::int64_t>& value) {
  if (const std::string& text = target.value(name); !text.empty()) {
    value = number_of<std::int64_t>(text);
    if (!value) {
      return bad_request("strconv.ParseInt: parsing \"" + text + "\": invalid syntax");
    }
  }
  return std::nullopt;
}

}  // namespace

std::string encode(const ContinueToken& token) {
  const Json content = {{"v", "meta.k8s.io/v1"}, {"rv", token.version}, {"start", token.start}};
  return to_base64url(content.dump());
}

Answer<ContinueToken> decode_token(const std::string& text) {
  const Json content = Json::parse(from_base64url(text), nullptr, false);
  const auto version = number_field(content, {"rv"});
  if (content.is_discarded() || !version) {
    return fault(bad_request("invalid continue token: continue key is not valid: no JSON"));
  }
  return ContinueToken{.version = *version, .start = text_field(content, {"start"})};
}

Answer<std::optional<std::int64_t>> read_version(const std::string& text) {
  if (text.empty()) {
    return std::nullopt;
  }
  const auto version = number_of<std::uint64_t>(text);
  if (!version) {
    return fault({.code = 500,
                  .reason = "",
                  .message = "resourceVersion: Invalid value: \"" + text +
                             "\": strconv.ParseUint: parsing \"" + text + "\": invalid syntax"});
  }
  return static_cast<std::int64_t>(*version);
}

Answer<ListOptions> read_list_options(const Route& route, const Target& target, bool watch,
                                      bool watch_list) {
  ListOptions options;
  options.initial_events = watch && target.flag("sendInitialEvents");
  std::optional<std::int64_t> limit;
  for (auto& refusal : {read_number(target, "limit", limit),
                        read_number(target, "timeoutSeconds", options.timeout_seconds)}) {
    if (refusal) {
      return fault(*refusal);
    }
  }
  options.limit = limit.value_or(0) > 0 ? *limit : 0;
  const bool initial_events_known = watch_list && options.initial_events;
  if (!initial_events_known) {
    if (const auto complaints = complaints_about(target, watch); !complaints.empty()) {
      return fault(refused_options(complaints));
    }
  }
  auto selection =
      parse_selection(*route.kind, target.value("labelSelector"), target.value("fieldSelector"));
  if (!selection) {
    return fault(std::move(selection.error()));
  }
  options.selection = *std::move(selection);
  const std::string& token = target.value("continue");
  const std::string& version = target.value("resourceVersion");
  if (!token.empty() && !watch) {
    if (!version.empty() && version != "0") {
      return fault(bad_request("specifying resource version is not allowed when using continue"));
    }
    auto decoded = decode_token(token);
    if (!decoded) {
      return fault(std::move(decoded.error()));
    }
    options.token = *std::move(decoded);
    return options;
  }
  auto number = read_version(version);
  if (!number && !watch) {
    return fault(bad_request("invalid resource version: " + number.error().message));
  }
  if (!number) {
    return fault(std::move(number.error()));
  }
  options.version = *number;
  const std::string& match = target.value("resourceVersionMatch");
  if (match == "Exact") {
    options.match = ListOptions::Match::Exact;
  } else if (match == "NotOlderThan") {
    options.match = ListOptions::Match::NotOlderThan;
  }
  return options;
}

}  // namespace moonfence::sim
