// Knobs by name, and the user's file of them.
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <set>

#include "tests/probe.h"
#include "tests/variants.h"

namespace deformkit::testing {
namespace {

namespace fs = std::filesystem;

const std::string kKnob = "msda_forward_f32_sse41.head_major_reads";
/// Which kernel the probe's call runs, with a knob at its ends.
const std::string kAlways = kKnob + "=0\n", kNever = kKnob + "=1048576\n";

class UserKnobs : public ::testing::Test {
protected:
    fs::path folder_ = fs::temp_directory_path() / ("deformkit_knobs_" + std::to_string(getpid()));

    void TearDown() override { fs::remove_all(folder_); }
    std::string write(const fs::path &file, const std::string &text) const {
        fs::create_directories((folder_ / file).parent_path());
        std::ofstream(folder_ / file) << text;
        return (folder_ / file).string();
    }
    ChildResult run_with(const std::string &text) const { return run_with_file(write("knobs.params", text)); }
    static ChildResult run_with_file(const std::string &file) {
        return probe("DEFORMKIT_TARGET=sse41 DEFORMKIT_KNOBS=" + file);
    }
};

bool ran_head_major(const ChildResult &result) {
    EXPECT_TRUE(has_status(result, DEFORMKIT_OK)) << result.output;
    return contains(result, "variant=msda_forward_head_major_f32_sse41\n");
}

TEST_F(UserKnobs, AFileSetsThem) {
    const ChildResult always = run_with("# a comment\n" + kAlways + "end=1\n"), never = run_with(kNever + "end=1\n");
    EXPECT_TRUE(ran_head_major(always)) << always.output;
    EXPECT_FALSE(ran_head_major(never)) << never.output;
    EXPECT_EQ(always.output.find("status="), 0u) << "something was said: " << always.output;
}

TEST_F(UserKnobs, TheUsersOwnIsFound) {
    const std::string file = write("deformkit/x.params", kAlways + "end=1\n");
    // The name is the CPU's: as the library says it.
    const std::string environment = "XDG_CONFIG_HOME=" + folder_.string() + " HOME=/nonexistent DEFORMKIT_TARGET=sse41";
    const ChildResult name = run_command("env -u DEFORMKIT_KNOBS " + environment + " '" DEFORMKIT_PROBE "' knobs_file");
    ASSERT_EQ(name.status, 0);
    const fs::path own = name.output.substr(0, name.output.find('\n'));
    ASSERT_EQ(own.parent_path(), folder_ / "deformkit") << name.output;
    for (const std::string &text : {kAlways, kNever}) {
        write(own, text + "end=1\n");
        EXPECT_EQ(ran_head_major(probe("-u DEFORMKIT_KNOBS " + environment)), text == kAlways);
        EXPECT_EQ(ran_head_major(probe("DEFORMKIT_KNOBS= " + environment)), ran_head_major(run_with("end=0\n")))
            << "an empty name switches it off";
    }
}

TEST_F(UserKnobs, ADamagedFileIsRefusedAsAWhole) {
    const bool standard = ran_head_major(run_with("end=0\n"));
    const std::string other = standard ? kNever : kAlways;
    ASSERT_NE(ran_head_major(run_with(other + "end=1\n")), standard);
    for (const std::string &text : {
             other,                              // its end is missing
             other + "end=2\n",                  // a line before its end is missing
             other + "end=1",                    // fine but for what follows
             other + "no_such_knob=1\nend=2\n",  // another version's
             other + other + "end=2\n",          // twice
             other + kKnob + "\nend=2\n",        // no number
             other + kKnob + "=1x\nend=2\n",     // none either
             other + kKnob + "=99999999999999999999\nend=2\n",
             other + "msda_forward_f32_sse41.task_samples=0\nend=2\n",  // out of range
             other + "end=1\nend=1\n",
             std::string("\0\x7f"
                         "ELF\1\0\n",
                         8) +
                 other + "end=1\n",
         }) {
        const bool whole = text == other + "end=1";
        const ChildResult result = run_with(text);
        EXPECT_EQ(ran_head_major(result), whole ? !standard : standard) << text << result.output;
        EXPECT_EQ(contains(result, "Nothing of the file is used"), !whole) << text << result.output;
        EXPECT_EQ(contains(result, "knobs.params"), !whole) << result.output;
    }
    const ChildResult missing = run_with_file("/nonexistent/knobs.params");
    EXPECT_TRUE(contains(missing, "/nonexistent/knobs.params: cannot be read")) << missing.output;
    EXPECT_EQ(ran_head_major(missing), standard);
}

TEST(NamedKnobs, AreListedOnce) {
    std::set<std::string> names;
    for (int i = 0; i < deformkit_num_knobs(); i++) {
        const std::string name = deformkit_knob_name(i);
        EXPECT_TRUE(names.insert(name).second) << name;
        EXPECT_NE(deformkit_knob_meaning(i), std::string());
        int64_t standard = 0, lowest = 0, highest = 0, value = 0;
        ASSERT_EQ(deformkit_knob_range(name.c_str(), &standard, &lowest, &highest), DEFORMKIT_OK) << deformkit_last_error();
        ASSERT_EQ(deformkit_get_knob(name.c_str(), &value), DEFORMKIT_OK) << deformkit_last_error();
        EXPECT_LE(lowest, value);
        EXPECT_LE(value, highest);
        EXPECT_LE(lowest, standard);
        EXPECT_LE(standard, highest);
    }
    EXPECT_TRUE(names.count("library.copy_task_bytes") == 1);
    for (const Variant &variant : all_variants()) {
        const bool on_cpu = places_of(variant.target).size() == 1;
        const bool divides_queries = on_cpu && (variant.pass == "forward" || variant.pass == "backward_value");
        EXPECT_EQ(names.count(variant.name() + ".block_queries"), variant.op == "msda" && divides_queries ? 1u : 0u)
            << variant.name();
    }
    EXPECT_EQ(deformkit_knob_name(-1), nullptr);
    EXPECT_EQ(deformkit_knob_meaning(deformkit_num_knobs()), nullptr);
}

TEST(NamedKnobs, AreSetWithinTheirRange) {
    const char *name = kKnob.c_str();
    int64_t before = 0, value = 0;
    ASSERT_EQ(deformkit_get_knob(name, &before), DEFORMKIT_OK);
    EXPECT_EQ(deformkit_set_knob(name, before + 1), DEFORMKIT_OK) << deformkit_last_error();
    for (const int64_t wrong : {int64_t{-1}, int64_t{1} << 40}) {
        EXPECT_EQ(deformkit_set_knob(name, wrong), DEFORMKIT_INVALID_VALUE);
        EXPECT_NE(std::string(deformkit_last_error()).find(kKnob + ": expected 0 to 1048576"), std::string::npos)
            << deformkit_last_error();
    }
    EXPECT_EQ(deformkit_get_knob(name, &value), DEFORMKIT_OK);
    EXPECT_EQ(value, before + 1);
    EXPECT_EQ(deformkit_set_knob(name, before), DEFORMKIT_OK);
    EXPECT_EQ(deformkit_set_knob("msda_forward_f32_sse41.accumulators", 4), DEFORMKIT_INVALID_VALUE) << "compiled in";
    EXPECT_EQ(deformkit_get_knob("nonsense", &value), DEFORMKIT_INVALID_VALUE);
    EXPECT_NE(std::string(deformkit_last_error()).find("nonsense"), std::string::npos);
    EXPECT_EQ(deformkit_get_knob(nullptr, &value), DEFORMKIT_NULL_ARGUMENT);
    EXPECT_EQ(deformkit_set_knob(nullptr, 1), DEFORMKIT_NULL_ARGUMENT);
    EXPECT_EQ(deformkit_load_knobs(nullptr), DEFORMKIT_NULL_ARGUMENT);
    EXPECT_EQ(deformkit_load_knobs("/nonexistent"), DEFORMKIT_INVALID_VALUE);
}

}  // namespace
}  // namespace deformkit::testing
