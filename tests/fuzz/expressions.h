#pragma once

// Lua expressions at random, each of a wanted type; now and then of another one.

#include <algorithm>
#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "fuzz/choices.h"
#include "fuzz/policy_oracle.h"
#include "fuzz/vocabulary.h"

namespace moonfence::fuzz {

struct Variable {
  std::string name;
  Type::Kind kind = Type::Kind::Any;
  std::string item = {};  // class of an Object; "string" or "integer" of a List
  bool writable = true;
  // Of a Function: what it yields, and how many integers it takes.
  Type::Kind yields = Type::Kind::Any;
  std::size_t parameters = 0;
};

// What the code that is being written can make.
enum class Place {
  Load,   // neither verdicts nor requests
  Pod,    // verdicts about a pod
  Node,   // verdicts about a node
  Fetch,  // requests
};

class Expressions {
 public:
  explicit Expressions(Choices& choices) : choices_(choices) {}

  [[nodiscard]] std::string of(Type::Kind kind, int depth);
  [[nodiscard]] std::string plain(Type::Kind kind);  // a literal
  // A text that is never empty, such as a reason.
  [[nodiscard]] std::string some_text(int depth);
  [[nodiscard]] std::string small_integer();
  // Of the place: of a pod, or of a node.
  [[nodiscard]] std::string verdict(int depth);
  [[nodiscard]] std::string request(int depth);
  // A list that script code may change, or a map; of `item`s when it is given.
  [[nodiscard]] std::string own_list(const std::string& item, int depth);
  [[nodiscard]] std::string own_map(int depth);
  [[nodiscard]] std::string call(const Function& function, int depth);
  // A field of an object in scope; "" when none fits.
  [[nodiscard]] std::string field(Type::Kind kind);
  [[nodiscard]] const Variable* variable(Type::Kind kind, bool writable = false);
  [[nodiscard]] Type::Kind any_kind();

  std::vector<Variable> scope;  // innermost last
  Place place = Place::Load;
  std::set<std::string> needs;  // what the policy declares, "fetch" too
  Repeats repeats = Repeats::Exactly;

  // What is written from now on repeats no better than this.
  void note(Repeats at_best) { repeats = std::max(repeats, at_best); }

 private:
  [[nodiscard]] std::string integer(int depth);
  [[nodiscard]] std::string number(int depth);
  [[nodiscard]] std::string text(int depth);
  [[nodiscard]] std::string boolean(int depth);
  [[nodiscard]] std::string any(int depth);
  [[nodiscard]] std::string pod_verdict(int depth);
  [[nodiscard]] std::string node_verdict(int depth);
  [[nodiscard]] std::string volumes();
  // The variable of this class, "" where there is none.
  [[nodiscard]] std::string object(const std::string& class_name) const;
  [[nodiscard]] std::string function(int depth);
  [[nodiscard]] std::string formatted(int depth);
  [[nodiscard]] std::string argument(const Function& function, const Parameter& parameter,
                                     int depth);
  [[nodiscard]] std::string call_yielding(Type::Kind kind, int depth);
  [[nodiscard]] std::string with_default(std::string expression, const Type& type, Type::Kind kind);

  Choices& choices_;
  std::size_t nodes_ = 0;
};

}  // namespace moonfence::fuzz
