#include "fovea/export/pickle.h"

#include "tests/catch.h"
#include "tests/temp_dir.h"

using namespace fovea;

namespace {

std::string bytes(const char* text, size_t size) {
  return {text, size};
}
// A string literal with its NULs.
#define BYTES(text) bytes(text, sizeof(text) - 1)

const std::string kProto = "\x80\x02";

std::string global(const std::string& module, const std::string& name) {
  return "c" + module + "\n" + name + "\n";
}
std::string text(const std::string& value) {
  return "\x8c" + std::string(1, static_cast<char>(value.size())) + value;
}

std::string refusal(const std::string& pickle) {
  return error_of([&] { exports::read_pickle(pickle, "w.pt"); });
}

// _rebuild_tensor_v2(storage(type, key, numel), offset, sizes, strides, ...), as torch.save has it.
std::string tensor(const std::string& type, char numel, const std::string& sizes_and_strides) {
  return global("torch._utils", "_rebuild_tensor_v2") + "((" + text("storage") + global("torch", type) + text("0") +
         text("cpu") + "K" + numel + "tQ" + BYTES("K\x01") + sizes_and_strides + "\x89" +
         global("collections", "OrderedDict") + ")RtR";
}

}  // namespace

TEST_CASE("plain values") {
  const auto list = exports::read_pickle(kProto + "](NK\x05J\xff\xff\xff\xff\x88" + BYTES("G\x3f\xf8\0\0\0\0\0\0") +
                                             BYTES("X\x02\0\0\0hi") + "\x8a\x02\xfe\xffK\x01K\x02\x86" + "e.",
                                         "w.pt");
  const auto& items = list->as<exports::PickleList>()->items;
  REQUIRE(items.size() == 8);
  CHECK(items[0]->as<std::monostate>() != nullptr);
  CHECK(*items[1]->as<int64_t>() == 5);
  CHECK(*items[2]->as<int64_t>() == -1);
  CHECK(*items[3]->as<bool>());
  CHECK(*items[4]->as<double>() == 1.5);
  CHECK(*items[5]->as<std::string>() == "hi");
  CHECK(*items[6]->as<int64_t>() == -2);
  CHECK(items[7]->as<exports::PickleTuple>()->items.size() == 2);
}

TEST_CASE("an OrderedDict of tensors, with its metadata, and what was memorised") {
  const std::string weight = tensor("FloatStorage", 12, BYTES("K\x02K\x03\x86K\x03K\x01\x86"));
  const auto root =
      exports::read_pickle(kProto + global("collections", "OrderedDict") + ")Rq" + BYTES("\x00") + "(" + text("a") +
                               weight + "q\x01" + text("b") + "h\x01" + "u}" + text("_metadata") + "N" + "sb.",
                           "w.pt");
  const auto* dict = root->as<exports::PickleDict>();
  REQUIRE(dict != nullptr);
  REQUIRE(dict->items.size() == 2);
  const auto* a = dict->find("a")->as<exports::PickleTensor>();
  REQUIRE(a != nullptr);
  CHECK(a->storage.type == "FloatStorage");
  CHECK(a->storage.key == "0");
  CHECK(a->storage.numel == 12);
  CHECK(a->offset == 1);
  CHECK(a->sizes == std::vector<int64_t>{2, 3});
  CHECK(a->strides == std::vector<int64_t>{3, 1});
  CHECK(dict->find("b") == dict->find("a"));
  CHECK(dict->find("c") == nullptr);
}

TEST_CASE("what could run is refused by its name") {
  for (const auto& [module, name] :
       std::vector<std::pair<std::string, std::string>>{{"posix", "system"},
                                                        {"os", "system"},
                                                        {"builtins", "eval"},
                                                        {"torch", "load"},
                                                        {"torch._utils", "_rebuild"},
                                                        {"collections", "OrderedDict.__init__"},
                                                        {"torch", "FloatStorage.from_file"},
                                                        {"", ""}}) {
    CHECK_THAT(refusal(kProto + global(module, name) + text("touch /tmp/x") + "\x85R."),
               ContainsSubstring("the pickle asks for '" + module + "." + name + "'"));
    CHECK_THAT(refusal("\x80\x04" + text(module) + text(name) + "\x93."),
               ContainsSubstring("'" + module + "." + name + "'"));
  }
  // Allowed names are no functions to be called with anything.
  CHECK_THAT(refusal(kProto + global("torch", "FloatStorage") + ")R."), ContainsSubstring("is not to be called"));
  CHECK_THAT(refusal(kProto + "K\x01)R."), ContainsSubstring("expected something to call"));
  // INST, OBJ, EXT and the like do not exist here.
  CHECK_THAT(refusal(kProto + "(ios\nsystem\n."), ContainsSubstring("opcode 0x69"));
}

TEST_CASE("damage is refused, wherever it is") {
  const std::string whole =
      kProto + "}(" + text("a") + tensor("FloatStorage", 12, BYTES("K\x02K\x03\x86K\x03K\x01\x86")) + "u.";
  CHECK(refusal(whole) == "");
  for (size_t length = 0; length < whole.size(); ++length) {
    CHECK_THAT(refusal(whole.substr(0, length)), ContainsSubstring("w.pt: "));
  }
  CHECK_THAT(refusal(kProto + "."), ContainsSubstring("expected a value on the stack"));
  CHECK_THAT(refusal(kProto + "(."), ContainsSubstring("expected a value on the stack"));
  CHECK_THAT(refusal(kProto + "e."), ContainsSubstring("expected a mark"));
  CHECK_THAT(refusal(kProto + "h\x07."), ContainsSubstring("memo 7 was never filled"));
  CHECK_THAT(refusal(kProto + BYTES("\x8d\xff\xff\xff\xff\xff\xff\xff\xff") + "."), ContainsSubstring("more bytes"));
  CHECK_THAT(refusal(kProto + "N" + BYTES("r\xff\xff\xff\xff") + "."), ContainsSubstring("memo"));
  CHECK_THAT(refusal("\x80\x09N."), ContainsSubstring("protocol 9"));
  CHECK_THAT(refusal(kProto + "}K\x01" + "a."), ContainsSubstring("expected a list"));
  CHECK_THAT(refusal(kProto + "](K\x01u."), ContainsSubstring("expected a dict"));
}

TEST_CASE("circles and bottomless nesting end in an error, not in a stack overflow") {
  CHECK_THAT(refusal(kProto + "]q\x01h\x01" + "a."), ContainsSubstring("nested deeper than"));
  CHECK_THAT(refusal(kProto + "]q\x01]q\x02h\x01" + "ah\x01h\x02" + "a."), ContainsSubstring("nested deeper than"));
  std::string deep = kProto + std::string(500000, ']') + std::string(499999, 'a') + ".";
  CHECK_THAT(refusal(deep), ContainsSubstring("nested deeper than"));
  deep.pop_back();
  CHECK_THAT(refusal(deep), ContainsSubstring("found the end"));
}
