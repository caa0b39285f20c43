#include "policy/lua/bytecode.h"

#include <cstddef>
#include <limits>
#include <string_view>
#include <utility>

namespace moonfence::policy {
namespace {

constexpr std::string_view kSignature = "\x1bLua";
constexpr std::uint8_t kVersion = 0x54;
constexpr std::size_t kHeaderRest = 6 + 3 + 8 + 8;  // LUAC_DATA, sizes, LUAC_INT, LUAC_NUM
constexpr int kDeepest = 250;                       // the compiler ends at 200 levels

// Types of constants.
constexpr std::uint8_t kInteger = 0x03;
constexpr std::uint8_t kFloat = 0x13;
constexpr std::uint8_t kShortText = 0x04;
constexpr std::uint8_t kLongText = 0x14;

int append(lua_State*, const void* bytes, std::size_t size, void* text) {
  static_cast<std::string*>(text)->append(static_cast<const char*>(bytes), size);
  return 0;
}

// Reads the dump; once it does not fit, everything is zero and ok() is false.
class Dump {
 public:
  explicit Dump(std::string_view bytes) : rest_(bytes) {}

  [[nodiscard]] bool ok() const { return ok_; }
  [[nodiscard]] bool at_end() const { return rest_.empty(); }

  std::string_view bytes(std::size_t size) {
    if (size > rest_.size()) {
      ok_ = false;
      rest_ = {};
      return {};
    }
    const std::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return taken;
  }

  std::uint8_t byte() {
    const std::string_view one = bytes(1);
    return one.empty() ? std::uint8_t{0} : static_cast<std::uint8_t>(one.front());
  }

  // Seven bits a byte, the highest first; the last byte has its top bit set.
  std::size_t number() {
    std::size_t value = 0;
    while (ok_) {
      const std::uint8_t next = byte();
      value = (value << 7U) | (next & 0x7FU);
      if ((next & 0x80U) != 0) {
        break;
      }
    }
    return value;
  }

  int integer() {
    const std::size_t value = number();
    ok_ = ok_ && value <= static_cast<std::size_t>(std::numeric_limits<int>::max());
    return ok_ ? static_cast<int>(value) : 0;
  }

  // How many entries of at least one byte follow.
  std::size_t count() {
    const std::size_t value = number();
    ok_ = ok_ && value <= rest_.size();
    return ok_ ? value : 0;
  }

  std::string text() {
    const std::size_t size = number();  // and one more; 0 for none
    return size == 0 ? std::string() : std::string(bytes(size - 1));
  }

 private:
  std::string_view rest_;
  bool ok_ = true;
};

void read_code(Dump& dump, Prototype& prototype) {
  const std::size_t count = dump.count();
  for (std::size_t i = 0; i < count && dump.ok(); ++i) {
    std::uint32_t word = 0;
    unsigned shift = 0;
    for (const char each : dump.bytes(4)) {  // little-endian, as both our machines are
      word |= static_cast<std::uint32_t>(static_cast<std::uint8_t>(each)) << shift;
      shift += 8;
    }
    prototype.code.push_back({.word = word});
  }
}

void read_constants(Dump& dump, Prototype& prototype) {
  const std::size_t count = dump.count();
  for (std::size_t i = 0; i < count && dump.ok(); ++i) {
    const std::uint8_t type = dump.byte();
    if (type == kShortText || type == kLongText) {
      prototype.constants.emplace_back(dump.text());
      continue;
    }
    if (type == kInteger || type == kFloat) {
      dump.bytes(8);
    }
    prototype.constants.emplace_back(std::nullopt);
  }
}

// Lines are kept as steps from one instruction to the next; a step too wide for a byte is -128 and
// stands in a second list.
void read_lines(Dump& dump, Prototype& prototype) {
  constexpr int kElsewhere = 0x80;  // -128 as a byte; bytes above it are negative steps
  constexpr int kBytes = 0x100;
  const std::string_view steps = dump.bytes(dump.count());
  std::vector<std::pair<int, int>> absolute(dump.count());
  for (auto& [at, line] : absolute) {
    at = dump.integer();
    line = dump.integer();
  }
  int line = prototype.line;
  std::size_t next = 0;
  for (std::size_t i = 0; i < prototype.code.size() && i < steps.size(); ++i) {
    const int step = static_cast<unsigned char>(steps[i]);
    if (step != kElsewhere) {
      line += step < kElsewhere ? step : step - kBytes;
    } else if (next < absolute.size()) {
      line = absolute[next].second;
      ++next;
    }
    prototype.code[i].line = line;
  }
}

void read_names(Dump& dump, Prototype& prototype) {
  const std::size_t locals = dump.count();
  for (std::size_t i = 0; i < locals && dump.ok(); ++i) {
    prototype.locals.push_back(dump.text());
    (void)dump.integer();  // where it comes into scope
    (void)dump.integer();  // and where it leaves
  }
  const std::size_t upvalues = dump.count();
  for (std::size_t i = 0; i < upvalues && dump.ok(); ++i) {
    (void)dump.text();
  }
}

Prototype read_function(Dump& dump, int depth) {
  Prototype prototype;
  if (depth > kDeepest) {
    dump.bytes(std::numeric_limits<std::size_t>::max());
    return prototype;
  }
  (void)dump.text();  // the chunk's name
  prototype.line = dump.integer();
  (void)dump.integer();  // the last line
  prototype.parameter_count = dump.byte();
  dump.bytes(2);  // takes more arguments; size of the frame
  read_code(dump, prototype);
  read_constants(dump, prototype);
  const std::size_t upvalues = dump.count();
  for (std::size_t i = 0; i < upvalues && dump.ok(); ++i) {
    const bool in_stack = dump.byte() != 0;
    const std::uint8_t index = dump.byte();
    (void)dump.byte();  // its kind
    prototype.upvalues.push_back({.in_stack = in_stack, .index = index});
  }
  const std::size_t inner = dump.count();
  for (std::size_t i = 0; i < inner && dump.ok(); ++i) {
    prototype.inner.push_back(read_function(dump, depth + 1));
  }
  read_lines(dump, prototype);
  read_names(dump, prototype);
  return prototype;
}

}  // namespace

std::optional<Prototype> disassemble(lua_State* lua) {
  std::string bytes;
  if (lua_dump(lua, append, &bytes, 0) != 0) {
    return std::nullopt;
  }
  Dump dump(bytes);
  const bool known = dump.bytes(kSignature.size()) == kSignature && dump.byte() == kVersion;
  dump.bytes(1 + kHeaderRest + 1);  // format; checks; number of upvalues
  if (!known) {
    return std::nullopt;
  }
  Prototype prototype = read_function(dump, 0);
  if (!dump.ok() || !dump.at_end()) {
    return std::nullopt;
  }
  return prototype;
}

}  // namespace moonfence::policy
