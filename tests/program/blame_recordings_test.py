#!/usr/bin/env python3
"""`shardlab blame` of recordings of PyTorch: a program with a mistake in it, on two processes,
against the same program on one, and values that such a job has written.

    blame_recordings_test.py PROGRAM RECORDINGS

The mistakes are those of RECORDINGS/mistakes.py, which says what has to be named; a proposal was
right where PyTorch with it computes what one process does, which these mistakes are made of.
"""

import ast
import json
import pathlib
import re
import shutil
import sys
import unittest

from program import Program

RECORDINGS = pathlib.Path(sys.argv[2]).resolve()
FILES = RECORDINGS / "mistakes"


def table(name):
    """A constant of mistakes.py, which imports torch."""
    for node in ast.parse((RECORDINGS / "mistakes.py").read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
            return ast.literal_eval(node.value)
    raise KeyError(name)


# The lines that undo a mistake; those of others are no change of one value.
EDITS = {
    "no_sum_of_down": r"dist.all_reduce\(y\) .*linear.default, blocks.1.down .*mistakes.py:\d+",
    "sum_twice": r"y = y \* 0.5 .*c10d.allreduce_.default, blocks.0 ",
    "no_sum_of_gradients": r"dist.all_reduce\(gradient\) .*blocks.1.up ",
    "scaled_gradient": r"gradient = gradient \* 0.5 .*blocks.0.up.weight.grad",
    "no_average": r"dist.all_reduce\(gradient, op=dist.ReduceOp.AVG\) .*blocks.1.down",
    "sum_hidden": r"y = y \* 0.5 .*c10d.allreduce_.default, .*mistakes.py:\d+, and of 11 others",
    "times_ranks": r"loss = loss \* 0.5 .*mistakes.py:\d+",
    "sum_for_average": r"y = y \* 0.5 .*mistakes.py:\d+, and of 11 others",
    "max_for_sum": r"op=dist.ReduceOp.SUM    # in place of max, in c10d.allreduce_.default, .*:\d+",
}
# Two recordings of one program on other numbers of ranks, or under another plan.
ALIKE = (("llama_sp_2", "llama_sp_4"), ("mlp_tp_2", "mlp_tp_4"), ("llama_sp_4", "llama_tp_4"),
         ("llama_tp_4", "llama_sp_4"), ("llama_tp_4", "llama_checkpoint_4"), ("ring_4", "ring_4"),
         ("pipeline_2", "pipeline_2"), ("fsdp_hybrid_4", "fsdp_hybrid_4"))


class BlameRecordings(Program):
    def against_one(self, way, other):
        return self.shardlab("blame", FILES / f"{way}_one.json.gz", FILES / f"{other}.json.gz")

    def test_a_program_without_a_mistake_is_right(self):
        for way in ("tp", "dp", "clip"):
            for other in (f"{way}_none", *([f"values_{way}_none"] if way != "clip" else [])):
                code, output, errors = self.against_one(way, other)
                self.assertEqual((code, errors), (0, ""), output)
                self.assertRegex(output, r"ok: \d\d+ values of B are A's")

    def test_values_computed_in_another_way_are_counted_where_the_ends_agree(self):
        code, output, errors = self.against_one("tp", "tp_other_way")
        self.assertEqual((code, errors), (0, ""), output)
        self.assertRegex(output, r"\n[1-9]\d* values on the way are computed in another way")
        told = json.loads(self.shardlab("blame", "--json", FILES / "tp_one.json.gz",
                                        FILES / "tp_other_way.json.gz")[1])
        self.assertEqual((told["ok"], told["wrong"]), (True, []))
        self.assertGreater(told["on_the_way"], 0)
        plain = self.against_one("tp", "tp_none")[1]
        self.assertNotIn("another way", plain)

    def test_the_first_wrong_value_is_named_with_the_edit(self):
        for way, mistakes in table("MISTAKES").items():
            for mistake, named in mistakes.items():
                if not named:
                    continue
                with self.subTest(mistake):
                    code, output, errors = self.against_one(way, f"{way}_{mistake}")
                    self.assertEqual((code, errors), (1, ""), output)
                    first = output.splitlines()[1]
                    self.assertIn(named, first)
                    self.assertRegex(first, r"the first of \d+ values that are not A's")
                    if mistake in EDITS:
                        self.assertIn("with this edit nothing differs", output)
                        self.assertRegex(output, EDITS[mistake])
                    else:
                        self.assertNotIn("with this edit", output)

    def test_elements_are_those_of_the_rank_that_differs(self):
        output = self.against_one("tp", "tp_norm_of_rank_1")[1]
        self.assertRegex(output, r"wrong +[1-9]\d* of 32 elements differ; .* \(rank 1\)\n")

    def test_a_bias_that_counts_once_a_rank(self):
        """The result on 8 ranks has it four times more than that on 4; A and B are both wrong."""
        pair = [FILES / f"bias/tp{ranks}.json.gz" for ranks in (4, 8)]
        code, output, errors = self.shardlab("blame", *pair)
        self.assertEqual((code, errors), (1, ""), output)
        line = (FILES / "bias/tp.py").read_text(encoding="utf-8").splitlines().index(
            "        return ReduceFromTP.apply(F.linear(x, self.weight, self.bias))") + 1
        self.assertIn(f"down  tp.py:{line}: the first of", output)
        self.assertIn("with this edit nothing differs:\n  + y = y - 4 * b ", output)
        self.assertIn("; b: down.bias with 16 elements. Each rank adds it at ", output)

    def test_what_a_mask_takes_away_is_no_fault(self):
        """Each rank looks words of others up in its own piece of the table, and masks them."""
        right = (FILES / "masked/one.json.gz", FILES / "masked/none.json.gz")
        self.assertIn("ok: ", self.fine("blame", *right))

    def test_gradients_that_are_terms_are_averaged_before_they_are_clipped(self):
        """A layer that is called twice has a gradient of two terms on each rank."""
        code, output, errors = self.shardlab("blame", FILES / "masked/one.json.gz",
                                             FILES / "masked/missing.json.gz")
        self.assertEqual((code, errors), (1, ""), output)
        self.assertIn("their average over ranks 0, 1 is A's value", output)
        self.assertRegex(output, r"with this edit nothing differs:\n"
                                 r"  \+ dist.all_reduce\(gradient, op=dist.ReduceOp.AVG\) ")

    def test_ranks_that_part_are_compared_together(self):
        """Ranks of two heads have other views than the rank of one, and so events of their own."""
        right = (FILES / "heads/one.json.gz", FILES / "heads/none.json.gz")
        self.assertIn("ok: ", self.fine("blame", *right))
        script = (FILES / "heads/heads.py").read_text(encoding="utf-8").splitlines()
        for mistake, line, told, edit in (
                ("no_sum", "return (x @ weight.t())", "a term on each rank: their sum over ranks "
                 "0-2 is A's value", "dist.all_reduce("),
                ("max", "dist.all_reduce(x, op=", "it reduces by max, and by sum it is A's value",
                 "op=dist.ReduceOp.SUM    # in place of max, in ")):
            with self.subTest(mistake):
                code, output, errors = self.shardlab("blame", FILES / "heads/one.json.gz",
                                                     FILES / f"heads/{mistake}.json.gz")
                self.assertEqual((code, errors), (1, ""), output)
                number = 1 + next(i for i, text in enumerate(script) if line in text)
                self.assertIn(f"  heads.py:{number}: the first of ", output)
                self.assertIn(told, output)
                self.assertIn(f"with this edit nothing differs:\n  + {edit}", output)

    def test_stages_of_a_pipeline(self):
        """Each rank has values of its own, and names those of the whole model."""
        right = (FILES / "stages/one.json.gz", FILES / "stages/none.json.gz")
        self.assertIn("ok: ", self.fine("blame", *right))
        script = (FILES / "stages/stages.py").read_text(encoding="utf-8").splitlines()
        loss = 1 + next(i for i, text in enumerate(script) if "F.cross_entropy" in text)
        for mistake, place, told in (
                ("no_tie", "table.weight.grad  stages.py:", "\n  + dist.all_reduce(gradient, "
                 "group=dist.new_group([0, 2]))"),
                ("no_mean", f"stages.py:{loss}", f"\n  + loss = loss * 0.5    # stages.py:{loss}"),
                ("wrong_targets", f"stages.py:{loss}", "\n  ranks    rank 2\n")):
            with self.subTest(mistake):
                code, output, errors = self.shardlab("blame", FILES / "stages/one.json.gz",
                                                     FILES / f"stages/{mistake}.json.gz")
                self.assertEqual((code, errors), (1, ""), output)
                self.assertTrue(output.splitlines()[1].startswith(place), output)
                self.assertIn(told, output)

    def test_programs_that_people_write_by_hand(self):
        """Right ones are right, though values that nobody reads, micro-batches and gradients that
        are added up in one buffer are not those of one rank."""
        script = (FILES / "by_hand/by_hand.py").read_text(encoding="utf-8").splitlines()
        for program, mistake, line, told in (
                ("vocabulary", "local_largest", "scores.max(-1)", "op=dist.ReduceOp.MAX)"),
                ("vocabulary", "no_sum_of_gradients", "    loss.backward()", "all_reduce(gradient"),
                ("vocabulary", "no_sum_of_scores", "total = powers.sum", "+ dist.all_reduce(y)"),
                ("vocabulary", "target_not_masked", "picked = (scores", "aten.squeeze.dim"),
                ("rows", "averaged_sum", "parameter.grad /= world", "0.333333 times A's value"),
                ("rows", "no_sum_of_biases", "        loss.backward()", "all_reduce(gradient"),
                ("rows", "mean_of_own_rows", "        loss.backward()", "2.bias.grad"),
                ("tokens", "no_sum_of_biases", "        loss.backward()", "all_reduce(gradient"),
                ("pieces", "own_norm", "norm = piece.square", "+ dist.all_reduce(y)"),
                ("pieces", "other_order", "whole = torch.cat", "through  c10d.allgather_"),
                ("pieces", "decays_by_rank", "whole = torch.cat", "42 of 63 elements differ")):
            with self.subTest(program, mistake=mistake):
                one = FILES / f"by_hand/{program}_one.json.gz"
                right = self.fine("blame", one, FILES / f"by_hand/{program}_none.json.gz")
                self.assertIn("ok: ", right)
                code, output, errors = self.shardlab("blame", one,
                                                     FILES / f"by_hand/{program}_{mistake}.json.gz")
                self.assertEqual((code, errors), (1, ""), output)
                number = 1 + next(i for i, text in enumerate(script) if line in text)
                self.assertIn(f"by_hand.py:{number}: the first of ", output)
                self.assertIn(told, output)

    def blamed(self, folder, mistake):
        """The text on a recording with a mistake, against that of one rank."""
        code, output, errors = self.shardlab("blame", FILES / folder / "one.json.gz",
                                             FILES / folder / f"{mistake}.json.gz")
        self.assertEqual((code, errors), (1, ""), output)
        return output

    def test_owners_of_parameters_send_them_behind_the_step(self):
        """Before that no rank has all of A's parameters, and gradients that a reduce has left on
        other ranks than its root are no values."""
        one = FILES / "owners/one.json.gz"
        self.assertIn("ok: ", self.fine("blame", one, FILES / "owners/none.json.gz"))
        for mistake, first, told in (
                ("not_reduced", "owners.py:43", "\n  follows  2.weight"),
                ("one_not_sent", "0.bias: the first of 1 ", "; rank 1 has A's\n"),
                ("sent_by_rank_0", "owners.py:39", "\n  follows  owners.py:43, 0.bias, 2.weight"),
                ("bound_by_rank", "owners.py:43", "0.weight, 0.bias, 2.weight")):
            with self.subTest(mistake):
                output = self.blamed("owners", mistake)
                self.assertIn(first, output.splitlines()[1])
                self.assertIn(told, output)

    def test_a_parameter_that_a_rank_does_not_write_is_as_it_was(self):
        one = FILES / "unsent/one.json.gz"
        self.assertIn("ok: ", self.fine("blame", one, FILES / "unsent/none.json.gz"))
        output = self.blamed("unsent", "not_sent")
        self.assertIn("0.weight  unsent.py:31: the first of 4 ", output)
        self.assertIn("rank 0 has A's; rank 1 has it as it was before the step", output)

    def test_a_vocabulary_over_ranks_in_micro_batches(self):
        """A call that is missing is no other call's value; an edit holds in each micro-batch."""
        one = FILES / "tied/one.json.gz"
        self.assertIn("ok: ", self.fine("blame", one, FILES / "tied/none.json.gz"))
        script = (FILES / "tied/tied.py").read_text(encoding="utf-8").splitlines()
        for mistake, line, told, edit in (
                ("copy_not_reduced", "return Gather.apply(F.linear", "their sum over ranks 0, 1 is "
                 "A's value\n", "dist.all_reduce(gradient)"),
                ("first_piece", "return Gather.apply(F.linear", "ranks hold the same piece of it, "
                 "and none another one; aten.mm.default", ""),
                ("scaled_piece", "return Gather.apply(F.linear", "2 times A's value",
                 "gradient = gradient * 0.5    # of the result of aten.view.default"),
                ("words_not_reduced", "x = x.masked_fill", "aten.linear.default (Model  "
                 "tied.py:84) takes it as the whole", "dist.all_reduce(y)    # of the result of "
                 "aten.masked_fill.Scalar, Model  tied.py:82, and of 1 other\n"),
                ("down_not_reduced", "y = F.linear(y, self.down)", "aten.add.Tensor (Model  "
                 "tied.py:90) takes it as the whole", "dist.all_reduce(y)    # of the result of "
                 "aten.linear.default, Model  tied.py:85, and of 1 other\n"),
                ("bias_of_each_rank", "y = F.linear(y, self.down)", "aten.add.Tensor (Model  "
                 "tied.py:87) takes it as the whole", "Each rank adds it at Model  tied.py:87"),
                ("average_by_rank", "average.mul_(kept)", "a factor of each rank's own", "")):
            with self.subTest(mistake):
                output = self.blamed("tied", mistake)
                number = next(i for i, text in enumerate(script, 1) if line in text)
                self.assertIn(f"tied.py:{number}: the first of", output.splitlines()[1])
                self.assertIn(told, output)
                self.assertEqual("\n  + " in output, edit != "", output)
                self.assertIn(edit, output)

    def test_another_order_is_no_mistake(self):
        """Tokens in a zigzag, or at the ranks of their experts: what is made of it is judged."""
        for folder, mistake, line, told in (
                ("zigzag", "own_mask", "y = F.scaled_dot_product_attention", "aten.ge.Tensor\n"),
                ("zigzag", "own_count", "loss = (losses *", "a factor of each rank's own"),
                ("zigzag", "own_positions", "x = self.attention(", "ranks hold the same piece"),
                ("exchanged", "gate_not_reduced", "p.grad /= world", "their sum over ranks 0, 1 "
                 "is A's value\n"),
                ("exchanged", "not_divided", "", "1.up.grad\n  wrong    2 times A's value\n"),
                ("exchanged", "not_ordered", "return x + y * weight", "aten.mul.Tensor\n")):
            with self.subTest(f"{folder} {mistake}"):
                self.assertIn("\nok: ", self.fine("blame", FILES / folder / "one.json.gz",
                                                  FILES / folder / "none.json.gz"))
                script = (FILES / folder / f"{folder}.py").read_text(encoding="utf-8").splitlines()
                number = next(i for i, text in enumerate(script, 1) if line in text)
                first = f"{folder}.py:{number}: the first of" if line else "1.up.grad: the first"
                output = self.blamed(folder, mistake)
                self.assertIn(first, output.splitlines()[1])
                self.assertIn(told, output)

    def test_gradients_that_are_reduced_elsewhere(self):
        """Those of a table that two stages have, and those of a bucket that are copied back."""
        for folder, mistake, first, told in (
                ("tied_stages", "not_reduced", "table.grad", "a term on each rank: their sum over "
                 "ranks 0, 1 is A's value, and no collective adds them up"),
                ("tied_stages", "averaged", "table.grad", "0.5 times A's value"),
                ("bucket", "bound_times_ranks", "bucket.py:34",
                 "2 times A's value; aten.clamp.default"),
                ("bucket", "not_divided", "bucket.py:27", "2 times A's value; aten.slice.Tensor")):
            with self.subTest(f"{folder} {mistake}"):
                right = self.fine("blame", FILES / folder / "one.json.gz",
                                  FILES / folder / "none.json.gz")
                self.assertRegex(right.splitlines()[1], r"^ok: \d+ values of B are A's")
                output = self.blamed(folder, mistake)
                self.assertTrue(output.splitlines()[1].startswith(first), output)
                self.assertIn(told, output)
                self.assertIn("\nwith this edit nothing differs:\n", output)

    def test_values_that_are_gathered_kept_divided_by_and_stepped(self):
        """Of each mistake the line that makes it, or that takes what it makes; the printed loss of
        each rank is read by nobody."""
        one = FILES / "gathered/one.json.gz"
        self.assertIn("ok: ", self.fine("blame", one, FILES / "gathered/none.json.gz"))
        script = (FILES / "gathered/gathered.py").read_text(encoding="utf-8").splitlines()
        for mistake, line, told in (
                ("gathered_averaged", "return gradient[own]", "0.333333 times A's value"),
                ("running_of_rank", "running = x.var(0)", "aten.lerp_.Scalar"),
                ("tokens_of_rank", "tokens = tokens * world", "their average over ranks 0-2 is A's "
                 "value; aten.div.Tensor"),
                ("rate_by_rank", "left.0.weight: the first of 6", "its changes are 1, 2, 3 times "
                 "A's: a factor of each rank's own"),
                ("norm_summed_twice", "        dist.all_reduce(p.grad)", "every rank has A's value "
                 "before it, and it adds them up")):
            with self.subTest(mistake):
                output = self.blamed("gathered", mistake)
                numbers = [i for i, text in enumerate(script, 1) if line in text]
                first = f"gathered.py:{numbers[0]}: the first of" if numbers else line
                self.assertIn(first, output.splitlines()[1])
                self.assertIn(told, output)

    def test_a_multiple_that_does_not_matter_is_another_way(self):
        """A basis is orthonormal, whatever the factor of what it is made of."""
        one = FILES / "compressed/one.json.gz"
        self.assertIn("ok: ", self.fine("blame", one, FILES / "compressed/none.json.gz"))
        self.assertIn("2 values on the way are computed in another way",
                      self.fine("blame", one, FILES / "compressed/factor_summed.json.gz"))
        script = (FILES / "compressed/compressed.py").read_text(encoding="utf-8").splitlines()
        takes = [i for i, text in enumerate(script, 1) if "p.grad.copy_(basis" in text][0]
        output = self.blamed("compressed", "other_factor_summed")
        self.assertIn(f"3 times A's value; aten.numpy_T.default (compressed.py:{takes}) takes it",
                      output)
        self.assertIn("+ y = y * 0.333333", output)
        self.assertIn("their average over ranks 0-2 is A's value",
                      self.blamed("compressed", "factor_of_rank"))

    def test_a_grid_of_ranks_with_micro_batches(self):
        """What is wrong along one dim is told behind the sums along the other; a rank's own loss is
        printed. A's micro-batches have other rows."""
        one = FILES / "grid/one.json.gz"
        self.assertIn("ok: ", self.fine("blame", one, FILES / "grid/none.json.gz"))
        output = self.blamed("grid", "one_not_reduced")
        self.assertIn("1.down.grad", output.splitlines()[1])
        self.assertIn("their average over ranks 0, 2 is A's value, and no collective adds", output)
        self.assertIn("+ dist.all_reduce(gradient, op=dist.ReduceOp.AVG, "
                      "group=dist.new_subgroups_by_enumeration([[0, 2], [1, 3]])[0])", output)
        self.assertIn("; after the step it is one value on ranks 0, 2, another on ranks 1, 3\n",
                      self.blamed("grid", "copy_not_reduced"))

    def test_what_is_rounding_in_16_bits_and_what_is_not(self):
        """Each rank's own gradient is as near as rounding allows; the printed loss is nobody's."""
        one = FILES / "half/one.json.gz"
        self.assertIn("ok: ", self.fine("blame", one, FILES / "half/none.json.gz"))
        for mistake, first, told in (
                ("not_reduced", "3.weight.grad  half.py:28: ",
                 "with this edit nothing differs:\n  + dist.all_reduce(gradient, op=dist.ReduceOp."
                 "AVG)"),
                ("one_not_reduced", "2.weight.grad  half.py:28: ",
                 "their average over ranks 0-2 is A's value"),
                ("rate_by_rank", "0.weight: the first of 4 ",
                 "equal on all ranks before the step, and not behind it: changes differ by up to 1 "
                 "of the largest")):
            with self.subTest(mistake):
                output = self.blamed("half", mistake)
                self.assertIn(first, output.splitlines()[1])
                self.assertIn(told, output)

    def test_stages_that_are_models_of_their_own(self):
        """Ranks have layers under equal names, which are others of the whole model."""
        one = FILES / "own_stages/one.json.gz"
        right = self.fine("blame", one, FILES / "own_stages/none.json.gz")
        self.assertGreater(int(re.search(r"ok: (\d+) values of B are A's", right)[1]), 150)
        script = (FILES / "own_stages/own_stages.py").read_text(encoding="utf-8").splitlines()
        for mistake, place, line, told in (
                ("other_epsilon", "norm  own_stages.py:{}: ", "self.mix(self.norm(x))", "rank 1"),
                ("doubled_gradient", "own_stages.py:{}: ", "self.mix(self.norm(x))",
                 "2 times A's value")):
            with self.subTest(mistake):
                code, output, errors = self.shardlab(
                    "blame", one, FILES / f"own_stages/{mistake}.json.gz")
                self.assertEqual((code, errors), (1, ""), output)
                number = 1 + next(i for i, text in enumerate(script) if line in text)
                self.assertIn(place.format(number), output.splitlines()[1])
                self.assertIn(told, output)

    def test_experts_padding_functions_and_optimizers(self):
        """Experts of each rank under the names of the first; flat pieces that end in zeros;
        a function whose steps are as many as ranks; norms that an optimizer by hand takes; labels
        that all ranks have alike; gradients that a hook sends in 16 bits, or of heads that
        two ranks share, whose average Adam does not show."""
        for way in ("own_experts", "padded", "ring", "contrast", "trust_ratio", "sent_in_halves",
                    "shared_heads"):
            with self.subTest(way):
                self.assertIn("ok: ", self.fine("blame", FILES / way / "one.json.gz",
                                                FILES / way / "none.json.gz"))
        for way, mistake, line, told in (
                ("own_experts", "not_reduced", "        loss.backward()", "all_reduce(gradient)"),
                ("ring", "not_rescaled", "return self.out(RingAttention.apply",
                 "no part of A's value"),
                ("contrast", "same_labels", "labels = torch.arange(img", "hold the same piece"),
                ("shared_heads", "averaged", "p.grad /= self.replicas", "0.5 times A's value"),
                ("trust_ratio", "own_norm", "norms = torch.stack(",
                 "+ dist.all_reduce(y)    # of the result of aten.sum.default")):
            with self.subTest(mistake):
                (path,) = (FILES / way).glob("*.py")
                script = path.read_text(encoding="utf-8").splitlines()
                number = 1 + next(i for i, text in enumerate(script) if line in text)
                output = self.blamed(way, mistake)
                self.assertIn(f"{path.name}:{number}: the first of", output.splitlines()[1])
                self.assertIn(told, output)

    def test_values_of_a_job_name_the_module(self):
        for way, mistake, kind in table("DUMPS"):
            named = table("MISTAKES")[way][mistake]
            if not named:
                continue
            with self.subTest(mistake, kind=kind):
                code, output, errors = self.against_one(way, f"values_{way}_{mistake}")
                self.assertEqual((code, errors), (1, ""), output)
                # A dump has no calls of backward: the first gradient that it has is below them.
                first = {"no_sum_of_gradients": "blocks.1.norm"}.get(mistake, named)
                self.assertIn(first, output.splitlines()[1])

    def test_programs_on_other_ranks_are_alike(self):
        for a, b in ALIKE:
            with self.subTest(a=a, b=b):
                ranks = RECORDINGS / "ranks"
                self.assertIn("ok: ", self.fine("blame", ranks / f"{a}__2.15.0.json.gz",
                                                ranks / f"{b}__2.15.0.json.gz"))

    def test_json_has_all_that_is_wrong(self):
        code, output, _ = self.shardlab("blame", "--json", FILES / "tp_one.json.gz",
                                        FILES / "tp_no_sum_of_down.json.gz")
        found = json.loads(output)
        self.assertEqual((code, found["ok"]), (1, False))
        self.assertEqual(found["wrong"][0]["name"], "blocks.1.down")
        self.assertEqual(len(found["edits"]), 1)
        self.assertTrue(all(one["follows"] for one in found["wrong"][1:]))

    def test_a_recording_alone_is_held_to_pytorch(self):
        output = self.fine("blame", FILES / "tp_one.json.gz")
        self.assertRegex(output, r"nothing is wrong: \d+ results are PyTorch's")

    def test_a_mistake_in_a_recorded_program_is_shrunk(self):
        """A sum that the plan has put behind a layer is taken out by hand."""
        for file, layer in (("mistakes/tp_one", "blocks_1_down"),
                            ("llama__2.15.0", "layers_1_feed_forward_w2")):
            with self.subTest(file):
                shutil.copy(RECORDINGS / f"{file}.json.gz", self.folder / "one.json.gz")
                plan = ("one.json.gz", "--mesh", "tp=2", "--plan", "megatron")
                text = self.fine("run", "--toml", *plan)
                moved = f"{layer} = {layer}.redistribute(tp=R)"
                self.assertIn(moved, text)
                self.plant(wrong=text.replace(
                    moved, f"{layer} = from_local({layer}.to_local(), mesh=mesh)"))
                code, small, told = self.shardlab("shrink", "--budget", "1000", "wrong.toml")
                self.assertEqual(code, 0, told)
                self.assertLessEqual(len(small.splitlines()), 15, small)
                self.assertIn('cause = "cause.missing-sum"', small)
                self.assertIn(f"from_local({layer}.to_local()", small)
                self.plant(small=small)
                self.fine("test", "small.toml")
                code, _, told = self.shardlab("shrink", *plan)
                self.assertEqual(code, 2)
                self.assertIn("nothing is wrong, so there is nothing to shrink", told)

    def test_a_graph_is_shrunk(self):
        zoo = RECORDINGS.parents[2] / "scenarios/zoo"
        self.shardlab("trace", zoo / "row_parallel_without_its_sum.toml", "--out", "p.graph")
        code, small, told = self.shardlab("shrink", "--budget", "1000", "p.graph")
        self.assertEqual(code, 0, told)
        self.assertLessEqual(len(small.splitlines()), 10)
        self.assertIn('cause = "cause.missing-sum"', small)

    def test_refusals(self):
        shutil.copy(FILES / "values_tp_none.r0.json.gz", self.folder / "v.r0.json.gz")
        (self.folder / "text.json").write_text("{}", encoding="utf-8")
        for other, told in (("v.json.gz", r"v.r1.json.gz: there is no such file"),
                            ("none.json.gz", r"none.json.gz cannot be read"),
                            ("text.json", r"text.json: nothing that a recording is compared with"),
                            (RECORDINGS.parent / "exported/mlp__2.15.0.pt2",
                             r"mlp__2.15.0.pt2: the file has no values to compare with"),
                            (RECORDINGS / "gpt__2.15.0.json.gz", r"no value of the same name")):
            code, _, errors = self.shardlab("blame", FILES / "tp_one.json.gz", other)
            self.assertEqual(code, 2, errors)
            self.assertRegex(errors, told)
        code, _, errors = self.shardlab("types", "none.json.gz", FILES / "tp_one.json.gz")
        self.assertEqual((code, errors.splitlines()[0]),
                         (2, "error: none.json.gz cannot be read"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
