#pragma once

// Blocks of Lua statements at random. Loops count down in the main; now and then one does not end.

#include <cstddef>
#include <string>

#include "fuzz/choices.h"
#include "fuzz/expressions.h"

namespace moonfence::fuzz {

class Statements {
 public:
  Statements(Choices& choices, Expressions& expressions)
      : choices_(choices), expressions_(expressions) {}

  // Up to `most` statements; what they declare stays in scope.
  void run(std::size_t most, int depth);
  // The same in a scope of its own.
  void block(std::size_t most, int depth);
  void line(const std::string& text) { text_ += text + "\n"; }
  [[nodiscard]] std::string take() { return std::move(text_); }

 private:
  void statement(int depth);
  void branch_or_loop(int depth);
  void declare(int depth);
  void assign(int depth);
  void branch(int depth);
  void numeric_loop(int depth);
  void generic_loop(int depth);
  void counted_loop(int depth);
  void goto_loop(int depth);
  void local_function(int depth);
  void recursive_function(int depth);
  void closures(int depth);
  void change_list(int depth);
  void change_map(int depth);
  void border_table();
  void long_text(int depth);
  void own_environment(int depth);
  void early_return(int depth);
  void misuse(int depth);
  [[nodiscard]] std::string walk_of_field(const Variable& object, Variable& key, Variable& value);
  [[nodiscard]] std::string fresh(const char* stem);

  Choices& choices_;
  Expressions& expressions_;
  std::string text_;
  std::size_t names_ = 0;
  std::size_t statements_ = 0;
  int functions_deep_ = 0;
};

}  // namespace moonfence::fuzz
