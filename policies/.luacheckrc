-- Printed by `moonfence policy meta`; a test compares them.
std = "none"
read_globals = {
  "assert",
  "duration",
  "error",
  "fencer",
  "ipairs",
  "next",
  "pairs",
  "policy",
  "select",
  "tonumber",
  "tostring",
  "type",
  fence = { fields = { "skip", "forbid", "wait", "delete_pod", "delete_pod_and_attachments", "delete_attachments", "proceed", "hold", "taint_out_of_service", "http", "get", "list", "post", "create", "annotate", "try" } },
  log = { fields = { "info", "warn" } },
  math = { fields = { "floor", "ceil", "min", "max", "abs", "tointeger", "huge", "maxinteger", "mininteger" } },
  string = { fields = { "len", "sub", "lower", "upper", "format", "starts_with", "ends_with", "contains", "glob", "split", "trim", "byte" } },
  table = { fields = { "insert", "remove", "concat", "sort", "contains", "keys" } },
}
max_line_length = 120
exclude_files = { "lib" }
files["**/*_test.lua"] = { read_globals = { "tests", "case", "fixture" } }
