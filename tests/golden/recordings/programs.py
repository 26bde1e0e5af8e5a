"""Small training programs, as people write them, that are recorded for tests.

Each is a function that gives (model, optimizer, step); nothing here knows of shardlab.
"""

import copy

import torch
import torch.nn.functional as F
from torch import nn


class RMSNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight


def rotate(x, cos, sin):
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack((even * cos - odd * sin, even * sin + odd * cos), -1).flatten(-2)


class Attention(nn.Module):
    def __init__(self, width, heads, groups):
        super().__init__()
        self.head = width // heads
        self.wq = nn.Linear(width, width, bias=False)
        self.wk = nn.Linear(width, groups * self.head, bias=False)
        self.wv = nn.Linear(width, groups * self.head, bias=False)
        self.wo = nn.Linear(width, width, bias=False)

    def forward(self, x, cos, sin):
        batch, length, _ = x.shape
        q, k, v = (
            w(x).view(batch, length, -1, self.head).transpose(1, 2)
            for w in (self.wq, self.wk, self.wv)
        )
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        times = q.shape[1] // k.shape[1]
        if times > 1:
            k, v = k.repeat_interleave(times, 1), v.repeat_interleave(times, 1)
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.wo(out.transpose(1, 2).reshape(batch, length, -1))


class FeedForward(nn.Module):
    def __init__(self, width, inner):
        super().__init__()
        self.w1 = nn.Linear(width, inner, bias=False)
        self.w2 = nn.Linear(inner, width, bias=False)
        self.w3 = nn.Linear(width, inner, bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class LlamaBlock(nn.Module):
    def __init__(self, width, heads, groups, inner):
        super().__init__()
        self.attention = Attention(width, heads, groups)
        self.feed_forward = FeedForward(width, inner)
        self.attention_norm, self.ffn_norm = RMSNorm(width), RMSNorm(width)

    def forward(self, x, cos, sin):
        x = x + self.attention(self.attention_norm(x), cos, sin)
        return x + self.feed_forward(self.ffn_norm(x))


class Llama(nn.Module):
    def __init__(self, vocabulary=64, width=32, heads=4, groups=4, inner=64, layers=2, length=16):
        super().__init__()
        self.tok_embeddings = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(
            LlamaBlock(width, heads, groups, inner) for _ in range(layers)
        )
        self.norm, self.output = RMSNorm(width), nn.Linear(width, vocabulary, bias=False)
        head = width // heads
        angles = 1e4 ** (-torch.arange(0, head, 2).float() / head)
        turns = torch.outer(torch.arange(length).float(), angles)
        self.register_buffer("cos", turns.cos())
        self.register_buffer("sin", turns.sin())

    def forward(self, tokens):
        x = self.tok_embeddings(tokens)
        for layer in self.layers:
            x = layer(x, self.cos, self.sin)
        return self.output(self.norm(x))


class GptBlock(nn.Module):
    def __init__(self, width, heads, dropout):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.c_attn, self.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.c_fc, self.c_out = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.drop = nn.Dropout(dropout)

    def forward(self, x):
        batch, length, width = x.size()
        q, k, v = self.c_attn(self.ln_1(x)).split(width, dim=2)
        q, k, v = (
            t.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
            for t in (q, k, v)
        )
        dropout = self.drop.p if self.training else 0.0
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=True)
        y = y.transpose(1, 2).contiguous().view(batch, length, width)
        x = x + self.drop(self.c_proj(y))
        return x + self.drop(self.c_out(F.gelu(self.c_fc(self.ln_2(x)))))


class Gpt(nn.Module):
    """LayerNorm, one weight for q, k and v, dropout, positions that are learned, tied head."""

    def __init__(self, vocabulary=64, width=32, heads=4, layers=2, length=16, dropout=0.1):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.drop = nn.Dropout(dropout)
        self.h = nn.ModuleList(GptBlock(width, heads, dropout) for _ in range(layers))
        self.ln_f, self.lm_head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
        self.wte.weight = self.lm_head.weight

    def forward(self, idx, targets):
        position = torch.arange(idx.size(1), device=idx.device)
        x = self.drop(self.wte(idx) + self.wpe(position))
        for block in self.h:
            x = block(x)
        logits = self.lm_head(self.ln_f(x))
        loss = F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1)
        return logits, loss


class Net(nn.Module):
    """Convolutions, batch norm, pooling, plain SGD with momentum."""

    def __init__(self):
        super().__init__()
        self.conv1, self.bn = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.conv2 = nn.Conv2d(8, 8, 3, stride=2)
        self.fc1, self.fc2 = nn.Linear(8 * 3 * 3, 20), nn.Linear(20, 10)

    def forward(self, image):
        x = F.max_pool2d(F.relu(self.bn(self.conv1(image))), 2)
        x = F.relu(self.conv2(x))
        return self.fc2(torch.tanh(self.fc1(torch.flatten(x, 1))))


def tokens(batch=4, length=16, vocabulary=64):
    return (
        torch.randint(0, vocabulary, (batch, length)),
        torch.randint(0, vocabulary, (batch, length)),
    )


def llama(**sizes):
    model = Llama(**sizes)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    x, y = tokens()

    def step():
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return loss

    return model, optimizer, step


def llama_gqa():
    return llama(groups=2, layers=1)


def gpt():
    model = Gpt()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=True)
    x, y = tokens()

    def step():
        _, loss = model(x, y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        return loss

    return model, optimizer, step


def convolutions():
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    image, label = torch.randn(4, 3, 14, 14), torch.randint(0, 10, (4,))

    def step():
        loss = F.cross_entropy(model(image), label)
        loss.backward()
        optimizer.step()
        return loss

    return model, optimizer, step


def two_batches():
    """Gradients of two micro-batches are added; one of them is looked at."""
    model = nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Linear(24, 6))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    batches = [(torch.randn(8, 12), torch.randn(8, 6)) for _ in range(2)]

    def step():
        for x, y in batches:
            loss = F.mse_loss(model(x), y) / 2
            loss.backward()
        optimizer.step()
        return loss

    return model, optimizer, step


def next_token(place=lambda model: model):
    """Tokens and those that follow them are views of one tensor, made before the step."""
    model = place(nn.Sequential(nn.Embedding(32, 16), nn.LayerNorm(16), nn.Linear(16, 32)))
    optimizer = torch.optim.SGD([{"params": each.parameters()} for each in model], lr=0.1)
    text = torch.randint(0, 32, (4, 13))
    x, y = text[:, :-1], text[:, 1:]

    def step():
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
        loss.backward()
        optimizer.step()
        return loss

    return model, optimizer, step


def bf16():
    model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 8))
    model = model.to(torch.bfloat16)
    x, y = torch.randn(4, 16, dtype=torch.bfloat16), torch.randint(0, 8, (4,))

    def step():
        loss = F.cross_entropy(model(x).float(), y)
        loss.backward()
        return loss

    return model, None, step


def autocast():
    model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 8))
    x, y = torch.randn(4, 16), torch.randint(0, 8, (4,))

    def step():
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = F.cross_entropy(model(x), y)
        loss.backward()
        return loss

    return model, None, step


class Written(nn.Module):
    """Attention by hand, writes in place, noise, a detached branch."""

    def __init__(self, width=16, length=6):
        super().__init__()
        self.inner, self.out = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 20)
        self.table = nn.Embedding(20, width)
        mask = torch.triu(torch.ones(length, length), 1).bool()
        self.register_buffer("mask", mask.view(1, length, length))

    def forward(self, words):
        x = self.table(words)
        scores = (x @ x.transpose(-2, -1)).masked_fill(self.mask, float("-inf"))
        x = x + scores.softmax(-1) @ x.detach()
        x = x + self.out(F.gelu(self.inner(self.norm(x)), approximate="tanh"))
        x = x + 0.1 * torch.randn_like(x)
        x = x.clone()
        x[:, 0] += 1
        x.mul_(torch.where(x > 0, 1.0, 0.5).detach())
        return self.head(x)


def written():
    model = Written()
    words, labels = tokens(batch=8, length=6, vocabulary=20)

    def step():
        loss = F.cross_entropy(model(words).flatten(0, 1), labels.flatten())
        loss.backward()
        return loss

    return model, None, step


class Gammas(nn.Module):
    """How drawn gamma numbers move with their shapes, which PyTorch takes from fitted formulas:
    these numbers are far out, where the formulas are off by some 3e-4."""

    def __init__(self):
        super().__init__()
        self.rate = nn.Parameter(torch.ones(4))
        self.register_buffer("shapes", torch.tensor([9.0, 9.0, 9.0, 9.0]))
        self.register_buffer("drawn", torch.tensor([3.5, 3.4, 3.3, 3.2]))

    def forward(self):
        return self.rate * torch._standard_gamma_grad(self.shapes, self.drawn)


def gammas():
    model = Gammas()

    def step():
        loss = model().sum()
        loss.backward()
        return loss

    return model, None, step


def preferences():
    """A frozen copy has the names of the model. Rounding alone decides the step of the keys' bias,
    whose gradient a softmax cancels."""
    class Words(nn.Module):
        def __init__(self):
            super().__init__()
            self.table, self.head = nn.Embedding(20, 16), nn.Linear(16, 20)
            self.layer = nn.TransformerEncoderLayer(
                16, 2, 32, dropout=0.0, batch_first=True, norm_first=True)

        def forward(self, words):
            mask = nn.Transformer.generate_square_subsequent_mask(words.shape[1])
            scores = self.head(self.layer(self.table(words), src_mask=mask, is_causal=True))
            words = words[:, 1:, None]
            return scores[:, :-1].log_softmax(-1).gather(-1, words).squeeze(-1).sum(-1)

    model = Words()
    frozen = copy.deepcopy(model).requires_grad_(False)
    optimizer = torch.optim.Adam(model.parameters())
    better, worse = tokens(8, 6, 20)

    def step():
        with torch.no_grad():
            before = frozen(better) - frozen(worse)
        loss = -F.logsigmoid(0.1 * (model(better) - model(worse) - before)).mean()
        loss.backward()
        optimizer.step()
        return loss

    return model, optimizer, step


def residual():
    """Batch norm of a batch that ranks share, writes in place, RMSprop of a bias that batch norm
    cancels."""
    class Block(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.first, self.norm = nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width)
            self.second = nn.Conv2d(width, width, 3, padding=1)

        def forward(self, x):
            y = self.second(F.relu(self.norm(self.first(x)), inplace=True))
            y += x
            return F.relu(y, inplace=True)

    model = nn.Sequential(nn.Conv2d(3, 8, 3), Block(8), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                          nn.Linear(8, 5))
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
    image, label = torch.randn(8, 3, 8, 8), torch.randint(0, 5, (8,))

    def step():
        loss = F.cross_entropy(model(image), label)
        loss.backward()
        optimizer.step()
        return loss

    return model, optimizer, step


def experts():
    """Experts of one process: tokens are taken and added back by indices, in place."""
    class Experts(nn.Module):
        def __init__(self, width=16, count=4):
            super().__init__()
            self.inner, self.head = nn.Linear(8, width), nn.Linear(width, 5)
            self.gate = nn.Linear(width, count, bias=False)
            self.experts = nn.ModuleList(
                nn.Sequential(nn.Linear(width, 24), nn.SiLU(), nn.Linear(24, width))
                for _ in range(count))

        def forward(self, x):
            x = self.inner(x)
            rows = x.flatten(0, 1)
            weight, chosen = self.gate(rows).softmax(-1).topk(2, -1)
            out = torch.zeros_like(rows)
            for index, expert in enumerate(self.experts):
                row, slot = torch.where(chosen == index)
                out.index_add_(0, row, expert(rows[row]) * weight[row, slot, None])
            return self.head(out.view_as(x))

    model = Experts()
    x, y = torch.randn(4, 6, 8), torch.randn(4, 6, 5)

    def step():
        loss = F.mse_loss(model(x), y)
        loss.backward()
        return loss

    return model, None, step


def adversaries():
    """Two optimizers: the program of another mesh ends with the first step. Numbers are drawn in
    place, twice into one tensor; flatten() returns its operand."""
    maker = nn.Sequential(nn.Linear(4, 16), nn.LeakyReLU(0.2), nn.Linear(16, 6))
    judge = nn.Sequential(nn.utils.parametrizations.spectral_norm(nn.Linear(6, 16)),
                          nn.LeakyReLU(0.2), nn.Linear(16, 1))
    model = nn.ModuleDict({"maker": maker, "judge": judge})
    optimizers = [torch.optim.Adam(one.parameters(), betas=(0.5, 0.9)) for one in (judge, maker)]
    real = torch.randn(8, 6)

    def step():
        drawn = torch.empty(8, 4)
        false = maker(drawn.normal_().clone())
        noise = drawn.normal_()[:, :1]
        loss = (F.softplus(-judge(real) + noise) + F.softplus(judge(false.detach()))).mean()
        loss.backward()
        optimizers[0].step()
        optimizers[1].zero_grad()
        F.softplus(-judge(false)).mean().backward()
        optimizers[1].step()
        return loss

    return model, optimizers[0], step


def masked():
    """Attention with a mask of padding and dropout, batches that are parts of one tensor, memory
    that is written in parts (a circular pad), weight norm."""
    class Masked(nn.Module):
        def __init__(self, width=16):
            super().__init__()
            self.before = nn.Conv1d(width, width, 3, padding=1, padding_mode="circular")
            self.layer = nn.TransformerEncoderLayer(width, 4, 32, dropout=0.1, batch_first=True)
            self.head = nn.utils.parametrizations.weight_norm(nn.Linear(width, 5))

        def forward(self, x, padding):
            x = self.before(x.transpose(1, 2)).transpose(1, 2)
            return self.head(self.layer(x, src_key_padding_mask=padding)).mean(1)

    model = Masked()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, target = torch.randn(2, 8, 6, 16).unbind(0)
    padding = torch.arange(6)[None] >= torch.tensor([6, 5, 6, 3, 2, 6, 4, 6])[:, None]

    def step():
        loss = F.mse_loss(model(x, padding), target[:, 0, :5])
        loss.backward()
        optimizer.step()
        return loss

    return model, optimizer, step


def ascent():
    """Two backwards (sharpness-aware): the first one's gradients move the parameters, and are set
    to None before the second."""
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    x, target = torch.randn(8, 8), torch.randint(0, 3, (8,))

    def step():
        F.cross_entropy(model(x), target).backward()
        with torch.no_grad():
            parameters = list(model.parameters())
            norm = torch.stack([one.grad.norm() for one in parameters]).norm()
            ways = [one.grad * (0.05 / (norm + 1e-12)) for one in parameters]
            for one, way in zip(parameters, ways):
                one.add_(way)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), target)
        loss.backward()
        with torch.no_grad():
            for one, way in zip(parameters, ways):
                one.sub_(way)
        optimizer.step()
        return loss

    return model, optimizer, step


def drawn_inside():
    """Calls that draw numbers inside: alpha dropout, dropout between the layers of an LSTM."""
    class Drawn(nn.Module):
        def __init__(self):
            super().__init__()
            self.recurrent = nn.LSTM(8, 8, 2, dropout=0.2, batch_first=True)
            self.head = nn.Sequential(nn.Linear(8, 16), nn.SELU(), nn.AlphaDropout(0.2),
                                      nn.FeatureAlphaDropout(0.2), nn.Linear(16, 3))

        def forward(self, x):
            return self.head(self.recurrent(x)[0])

    model = Drawn()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, target = torch.randn(4, 6, 8), torch.randn(4, 6, 3)

    def step():
        with torch.backends.mkldnn.flags(enabled=False, allow_tf32=None):
            loss = F.mse_loss(model(x), target)
            loss.backward()
        optimizer.step()
        return loss

    return model, optimizer, step


def constant():
    """A loss that is constant: all gradients are rounding alone."""
    class Constant(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.outer = nn.Linear(8, 16), nn.Linear(16, 8)

        def forward(self, x):
            return F.layer_norm(self.outer(self.inner(x).tanh()) + x, (8,))

    model = Constant()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    x = torch.randn(8, 8)

    def step():
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    return model, optimizer, step


def choices():
    """Rows with equal elements: which of their indices PyTorch takes is its choice."""
    class Choices(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.outer = nn.Linear(8, 16), nn.Linear(16, 6)

        def forward(self, x):
            rows = F.relu(self.inner(x)).round(decimals=1)
            largest, at = rows.topk(5, -1)
            rows = torch.zeros_like(rows).scatter(-1, at, largest)
            middle = rows.median(0).values + rows.kthvalue(3, 0, keepdim=True).values
            return self.outer(rows + middle + rows.mode(-1, keepdim=True).values)

    model = Choices()
    x, y = torch.randn(12, 8), torch.randint(0, 6, (12,))

    def step():
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        return loss

    return model, None, step


def jumps():
    """Functions with jumps, of values that rounding moves; vectors of decompositions; the order of
    equal elements, which gradients pass."""
    class Jumps(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.outer = nn.Linear(8, 8), nn.Linear(8, 6)

        def forward(self, x):
            rows = self.inner(x)
            with torch.no_grad():
                square = rows[:8]
                turned, _ = torch.linalg.qr(square)
                (turned @ turned.t()).floor()
                rows.sum(0) == (x.sum(0, keepdim=True) @ self.inner.weight.t())[0]
                torch.cat([rows, rows * (1 + 1e-7)], 1).argmax(1)
                torch.linalg.eigh(square + square.t())
                torch.linalg.svd(square)
            keys = torch.arange(len(x)) * 7 % 4
            return self.outer(rows[torch.argsort(keys)] + rows[keys.sort().indices])

    model = Jumps()
    x, y = torch.randn(12, 8), torch.randint(0, 6, (12,))

    def step():
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        return loss

    return model, None, step


class Reverse(torch.autograd.Function):
    """The operand, whose gradient is reversed."""

    @staticmethod
    def forward(ctx, x, scale):
        ctx.scale = scale
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        return -ctx.scale * gradient, None


class Signs(torch.autograd.Function):
    """Two results, of which one has no gradient; the other has that of its operand, clamped."""

    @staticmethod
    def forward(ctx, x):
        places = x.argmax(-1)
        ctx.mark_non_differentiable(places)
        return x.sign(), places

    @staticmethod
    def backward(ctx, gradient, _):
        return gradient.clamp(-1, 1)


class Gated(torch.autograd.Function):
    """Recomputed with gradients in its backward."""

    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return x * torch.tanh(F.linear(x, weight))

    @staticmethod
    def backward(ctx, gradient):
        x, weight = (one.detach().requires_grad_() for one in ctx.saved_tensors)
        with torch.enable_grad():
            y = x * torch.tanh(F.linear(x, weight))
        return torch.autograd.grad(y, (x, weight), gradient)


def own_gradients():
    """autograd.Functions: next to their operand, with several results, recomputed, on the loss."""
    class Own(nn.Module):
        def __init__(self, width=16):
            super().__init__()
            self.up, self.down = nn.Linear(width, 24), nn.Linear(24, width)
            self.gate, self.head = nn.Linear(width, width, bias=False), nn.Linear(width, 5)

        def forward(self, x):
            signs, places = Signs.apply(self.up(x))
            x = x + self.down(signs * 0.5 + self.up(x))
            x = x + Reverse.apply(x, 0.3) * places.unsqueeze(-1).clamp(max=1)
            return self.head(Gated.apply(x, self.gate.weight))

    model = Own()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, target = torch.randn(8, 6, 16), torch.randn(8, 6, 5)

    def step():
        loss = Reverse.apply(F.mse_loss(model(x), target), -0.5)
        loss.backward()
        optimizer.step()
        return loss

    return model, optimizer, step


class Picked(torch.autograd.Function):
    """The chosen weight of a softmax; backward writes into a product that it has made."""

    @staticmethod
    def forward(ctx, scores, chosen):
        weights = scores.softmax(-1)
        ctx.save_for_backward(weights, chosen)
        return weights.gather(-1, chosen)

    @staticmethod
    def backward(ctx, gradient):
        weights, chosen = ctx.saved_tensors
        picked = gradient * weights.gather(-1, chosen)
        into = weights * -picked
        return into.scatter_add_(-1, chosen, picked), None


def picked():
    """Relative positions by views, masked in place behind products; a router of its own."""
    class Relative(nn.Module):
        def __init__(self, width=16, heads=4):
            super().__init__()
            self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))
            self.up, self.down = nn.Linear(width, 24), nn.Linear(24, width)
            self.norm, self.last = nn.LayerNorm(width), nn.LayerNorm(width)
            self.places = nn.Parameter(torch.randn(width // heads, heads, width // heads))
            self.router, self.head, self.heads = nn.Linear(width, 4), nn.Linear(width, 5), heads
            self.register_buffer("table", torch.randn(24, width // heads))
            self.register_buffer("mask", F.pad(torch.ones(11, 11), (1, 0, 1, 0)))

        def forward(self, x):
            x = x + self.down(F.gelu(self.up(self.norm(x))))
            heads = lambda layer: layer(x).view(*x.shape[:2], self.heads, -1)
            q, k, v = heads(self.q), heads(self.k), heads(self.v)
            table = torch.einsum("td,dnh->tnh", self.table, self.places)
            moved = torch.einsum("binh,tnh->bnit", q, table)
            moved = moved.reshape(len(x), self.heads, 24, 12)[:, :, 1:].reshape(
                len(x), self.heads, 12, 23)[..., :12]
            moved *= self.mask
            scores = torch.einsum("bind,bjnd->bnij", q, k) + moved
            mixed = torch.einsum("bnij,bjnd->bind", scores.softmax(-1), v).flatten(2)
            rows = self.last(x + self.o(mixed)).flatten(0, 1)
            routed = self.router(rows)
            chosen = routed.detach().max(-1, keepdim=True).indices
            return self.head(rows * Picked.apply(routed, chosen)).view(*x.shape[:2], -1), table

    model = Relative()
    x, target = torch.randn(4, 12, 16), torch.randn(4, 12, 5)

    def step():
        y, table = model(x)
        loss = F.mse_loss(y, target) + table.square().mean()
        loss.backward()
        return loss

    return model, None, step


def turned():
    """A gradient of relu is 0 where rounding says so; norms of batches sum its error."""
    torch.manual_seed(35)

    def block(given):
        return nn.Conv2d(given, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU()

    model = nn.Sequential(
        nn.Upsample(scale_factor=8), *(layer for given in (3, 16, 16, 16, 16, 16)
                                       for layer in block(given)),
        nn.MaxPool2d(4), *block(16), *block(16), nn.Flatten(), nn.Linear(1024, 5))
    x, y = torch.randn(4, 3, 4, 4), torch.randint(0, 5, (4,))

    def step():
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        return loss

    return model, None, step


class StandardConv2d(nn.Conv2d):
    """Its weight is standardized in each forward: a view of it goes into a norm."""

    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.gain = nn.Parameter(torch.ones(self.out_channels, 1, 1, 1))

    def forward(self, x):
        rows = self.weight.reshape(1, self.out_channels, -1)
        weight = F.batch_norm(rows, None, None, weight=(self.gain * 0.1).view(-1), training=True)
        return F.conv2d(x, weight.reshape_as(self.weight), self.bias)


class Shifted(nn.Linear):
    """The gradient of the shift is the rounding of 0."""

    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.shift = nn.Parameter(torch.zeros(()))

    def forward(self, x):
        return super().forward(x) + self.shift


def standard():
    torch.manual_seed(4)
    model = nn.Sequential(StandardConv2d(3, 8, 1), nn.SiLU(), StandardConv2d(8, 9, 1), nn.SiLU(),
                          nn.AdaptiveAvgPool2d(1), nn.Flatten(), Shifted(9, 4))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    x, y = torch.randn(4, 3, 5, 5), torch.randint(0, 4, (4,))

    def step():
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return model, optimizer, step


def fused():
    """Queries, keys and values of three heads in one layer, unbound."""
    class Fused(nn.Module):
        def __init__(self, width=12, heads=3):
            super().__init__()
            self.norm, self.heads = nn.LayerNorm(width), heads
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

        def forward(self, x):
            qkv = self.qkv(self.norm(x)).reshape(*x.shape[:2], 3, self.heads, -1)
            q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
            y = F.scaled_dot_product_attention(q, k, v)
            return x + self.out(y.transpose(1, 2).flatten(2))

    model = Fused()
    x, target = torch.randn(4, 6, 12), torch.randn(4, 6, 12)

    def step():
        loss = F.mse_loss(model(x), target)
        loss.backward()
        return loss

    return model, None, step


def flattened():
    """Attention that computes in f32 below autocast; a view that is all of a product, which
    autocast casts once more."""
    model = nn.Sequential(nn.Embedding(24, 16), nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 24))
    model.places = nn.Parameter(torch.randn(8, 8))
    words, labels = tokens(batch=6, length=8, vocabulary=24)

    def step():
        with torch.autocast("cpu", torch.bfloat16):
            x = model[:2](words)[:, None]
            x = F.scaled_dot_product_attention(x, x, x, attn_mask=model.places)[:, 0]
            loss = F.cross_entropy(model[2:](x).flatten(0, 1), labels.flatten())
        loss.backward()
        return loss

    return model, None, step


def roots():
    """Gradients of several values, with gradients of their own, of a gradient (a penalty), and
    parameters that the program itself moves by them."""
    model = nn.ModuleDict({"trunk": nn.Linear(8, 16), "a": nn.Linear(16, 6), "b": nn.Linear(16, 3)})
    x, weights = torch.randn(12, 8), torch.randn(12, 6)

    def step():
        x.requires_grad_()
        inner = model["trunk"](x).tanh()
        a, b = model["a"](inner), model["b"](inner)
        slope, = torch.autograd.grad(b.sum(), x, create_graph=True)
        penalty = (slope.norm(dim=-1) - 1).square().mean() + b.square().mean()
        torch.autograd.backward([a, penalty], [weights, None], retain_graph=True)
        loss = a.square().mean()
        names, parameters = zip(*model["a"].named_parameters())
        more = torch.autograd.grad(loss, parameters)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= 0.1 * parameter.grad
            for parameter, gradient in zip(parameters, more):
                parameter -= 0.2 * gradient
        return loss

    return model, None, step


def time_first():
    """[time, batch, features], of which both are 4 long: only attention says which is which."""
    class TimeFirst(nn.Module):
        def __init__(self, width=16, length=4):
            super().__init__()
            self.words = nn.Embedding(24, width)
            self.places = nn.Parameter(torch.zeros(length, 1, width))
            self.layers = nn.Sequential(nn.TransformerEncoderLayer(width, 4, 32, dropout=0.0),
                                        nn.TransformerEncoderLayer(width, 2, 32, dropout=0.0))
            self.head = nn.Linear(width, 24)

        def forward(self, tokens):
            return self.head(self.layers(self.words(tokens) + self.places))

    model = TimeFirst()
    optimizer = torch.optim.Adam(model.parameters())  # counts its steps in tensors without dims
    tokens, target = torch.randint(0, 24, (4, 4)), torch.randint(0, 24, (4, 4))

    def step():
        loss = F.cross_entropy(model(tokens).flatten(0, 1), target.flatten())
        loss.backward()
        optimizer.step()
        return loss

    return model, optimizer, step


def leaves():
    """Results that the program makes leaves: points between two batches, of whose gradient there is
    a penalty; noise that is moved along its gradient; and a value that cuts a backward in two."""
    model = nn.ModuleDict({"trunk": nn.Linear(8, 16), "head": nn.Linear(16, 1)})
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    real, false, noise = torch.randn(12, 8), torch.randn(12, 8), torch.randn(12, 8)

    def score(x):
        return model["head"](F.softplus(model["trunk"](x)))

    def step():
        between = (0.3 * real + 0.7 * false).requires_grad_()
        slope, = torch.autograd.grad(score(between).sum(), between, create_graph=True)
        moved = (0.1 * noise).requires_grad_()
        score(real + moved).mean().backward()
        moved = (moved + 0.05 * moved.grad.sign()).detach()
        optimizer.zero_grad()
        hidden = F.softplus(model["trunk"](real + moved))
        cut = hidden.detach().clone().requires_grad_()
        loss = model["head"](cut).square().mean() + (slope.norm(dim=-1) - 1).square().mean()
        loss.backward()
        hidden.backward(cut.grad)
        optimizer.step()
        return loss

    return model, optimizer, step


def kept():
    """Choices of the library that gradients pass (signs of vectors, the order of equal keys, drawn
    slopes, masks between the layers of an LSTM), a Function whose `apply` the program has kept, and
    a bias whose gradient is rounding alone."""
    reverse = Reverse.apply

    class Kept(nn.Module):
        def __init__(self, width=6):
            super().__init__()
            self.words = nn.Embedding(12, 8)
            self.layers = nn.LSTM(8, width, 2, dropout=0.2, bidirectional=True, batch_first=True)
            self.mix, self.keys = nn.Linear(2 * width, width), nn.Linear(width, width)
            self.head = nn.Linear(width, 12)

        def forward(self, tokens):
            x = F.rrelu(self.mix(self.layers(self.words(tokens))[0]), training=True)
            weights = (x @ self.keys(x).transpose(1, 2)).softmax(-1)
            rows = reverse(weights @ x, 0.5).flatten(0, 1)
            order = (torch.arange(len(rows)) * 7 % 4).sort().indices
            left, sizes, right = torch.linalg.svd(self.mix.weight, full_matrices=False)
            _, axes = torch.linalg.eigh(left @ torch.diag(sizes + torch.arange(6.0)) @ left.t())
            parts = nn.utils.rnn.pad_sequence(list(rows[order].split([9, 3, 8])))
            return self.head(rows @ axes + right[:, :6].sum(0)), parts.square().mean()

    model = Kept()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    tokens = torch.randint(0, 12, (4, 5))

    def step():
        with torch.backends.mkldnn.flags(enabled=False):  # its layers are one op, without a rule
            words, other = model(tokens)
        loss = F.cross_entropy(words, tokens.flatten()) + other
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        return loss

    return model, optimizer, step


def clamped():
    """Two steps, with weights that are clamped behind each, and an average of them."""
    model = nn.Sequential(nn.Linear(6, 12), nn.Dropout(0.2), nn.ReLU(), nn.Linear(12, 5))
    average = copy.deepcopy(model)
    optimizer = torch.optim.RMSprop(model.parameters(), lr=0.05)
    x, y = torch.randn(12, 6), torch.randint(0, 5, (12,))

    def step():
        for _ in range(2):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            for parameter in model.parameters():
                parameter.data.clamp_(-0.2, 0.2)
            with torch.no_grad():
                for own, other in zip(average.parameters(), model.parameters()):
                    own.mul_(0.9).add_(other, alpha=0.1)
        return loss

    return model, optimizer, step


def started():
    """Writes behind autograd: a scale that the first batch gives, results that are clamped. Points
    that a cast makes leaves, a complex number, a choice by a number, one row alone; a step of one
    flat vector."""
    class Started(nn.Module):
        def __init__(self, width=12):
            super().__init__()
            self.inner, self.outer = nn.Linear(3, width), nn.Linear(width, width)
            self.head, self.scale = nn.Linear(width, 1), nn.Parameter(torch.ones(width))
            self.waves = nn.Parameter(torch.linspace(0.1, 1, width))

        def forward(self, points):
            x = torch.tanh(self.inner(points))
            if bool((self.scale == 1).all()):
                self.scale.data.copy_(1 / (x.detach().std(0) + 1))
            x = self.outer(x * self.scale)
            x.data.clamp_(-0.5, 0.5)
            return self.head(torch.tanh(20 * x) * torch.exp(1j * self.waves).real)

    model = Started()
    table = torch.randn(12, 3, dtype=torch.float64)

    def step():
        points = table.float().requires_grad_()
        height = model(points)
        slope, = torch.autograd.grad(height.sum(), points, create_graph=True)
        steepest = slope.detach().norm(dim=1).argmax().item()
        loss = (slope - 1).square().mean() + height.square().mean() + height[steepest, 0]
        loss = loss + model(points[0]).sum()
        loss.backward()
        with torch.no_grad():
            flat = torch.cat([each.grad.view(-1) for each in model.parameters()])
            flat = flat / (1 + flat.norm())
            for each in model.parameters():
                part, flat = flat[:each.numel()], flat[each.numel():]
                each.add_(part.view_as(each), alpha=-0.1)
        return loss

    return model, None, step


PROGRAMS = {program.__name__: program for program in (
    llama, llama_gqa, gpt, convolutions, two_batches, next_token, bf16, autocast, written, gammas,
    preferences, residual, experts, adversaries, masked, ascent, drawn_inside, constant, choices,
    jumps, own_gradients, picked, turned, standard, fused, flattened, roots,
    time_first, leaves, kept, clamped, started
)}
