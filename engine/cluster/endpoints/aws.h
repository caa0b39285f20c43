#pragma once

// What an endpoint with authentication of type aws is sent: the query APIs of AWS, whose every call
// is a POST of a form to "/" and whose parameter Action says what happens. There a question and an
// order look alike, so what each may be is decided here and not by whoever asks: a question
// describes, and an order stops one instance.

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "port/files.h"
#include "port/http.h"

namespace moonfence::cluster {

// From the engine's configuration.
struct AwsRules {
  std::string region;
  std::string service = "ec2";
  std::string access_key_file;
  std::string secret_key_file;
  std::string session_token_file;  // empty: none
};

struct AwsIdentity {
  std::shared_ptr<const port::AwsSignature> signature;
  std::vector<port::Header> headers;
};
// Of the files, as they are now.
[[nodiscard]] Result<AwsIdentity> aws_identity(port::Files& files, const AwsRules& rules);

struct AwsCall {
  std::string action;
  std::string form;  // its parameters, with the action
};
// Of a path with its query, such as "/?Action=DescribeInstances&…"; Invalid for any action but one
// that begins with Describe.
[[nodiscard]] Result<AwsCall> aws_question(std::string_view path);
// Of the parameters as a JSON object; Invalid for anything but StopInstances of one instance, which
// keeps no memory.
[[nodiscard]] Result<AwsCall> aws_order(std::string_view path, std::string_view parameters);

// Why it was refused, such as UnauthorizedOperation; "" when the body does not say. Nothing but
// letters, digits and dots.
[[nodiscard]] std::string aws_error_code(std::string_view body);

}  // namespace moonfence::cluster
