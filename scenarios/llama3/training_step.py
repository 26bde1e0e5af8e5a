# One training step of LLaMA-3. Weights are cut over tp and over dp (FSDP): each use gathers them
# along dp, and the gradient comes back in pieces. Between blocks activations are cut along the
# sequence over tp. With recompute a block keeps its input only, and backward runs it once more.

def col(o, i):  # [out, in]: out cut by tp, in by dp
    return randn([o, i], dtype=bf16, tp=S(0), dp=S(1), requires_grad=True)

def row(o, i):
    return randn([o, i], dtype=bf16, tp=S(1), dp=S(0), requires_grad=True)

def vec(n):
    return ones([n], dtype=bf16, dp=S(0), requires_grad=True)

def make_layer():
    return {'n1': vec(D), 'n2': vec(D),
            'wq': col(H * hd, D), 'wk': col(KV * hd, D), 'wv': col(KV * hd, D),
            'wo': row(D, H * hd), 'w1': col(FF, D), 'w3': col(FF, D), 'w2': row(D, FF)}

blocks = [make_layer() for l in range(layers)]
emb = col(V, D)
head = col(V, D)
nf = vec(D)

def use(w):  # gathers; in backward the gradient is reduced and scattered
    return w.redistribute(dp=R)

inv = 1.0 / theta ** (arange(0, hd, 2, dtype=f32) / hd)
ang = arange(T, dtype=f32).unsqueeze(1) * inv
ang = cat([ang, ang], dim=-1)
cos = distribute(ang.cos().bfloat16(), mesh=mesh)
sin = distribute(ang.sin().bfloat16(), mesh=mesh)

def rotate_half(x):
    a, b = x.chunk(2, dim=-1)
    return cat([-b, a], dim=-1)

def rope(x):
    return x * cos + rotate_half(x) * sin

def heads(t, n):
    return t.view(B, T, n, hd).transpose(1, 2)

def block(x, p):  # x: [B@dp, T@tp, D]
    h = F.rms_norm(x, [D], use(p['n1']), eps).redistribute(tp=R)
    q = rope(heads(F.linear(h, use(p['wq'])), H))
    k = rope(heads(F.linear(h, use(p['wk'])), KV))
    v = heads(F.linear(h, use(p['wv'])), KV)
    o = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    o = o.transpose(1, 2).reshape(B, T, H * hd)
    x = x + F.linear(o, use(p['wo'])).redistribute(tp=S(1))
    h = F.rms_norm(x, [D], use(p['n2']), eps).redistribute(tp=R)
    u = F.silu(F.linear(h, use(p['w1']))) * F.linear(h, use(p['w3']))
    return x + F.linear(u, use(p['w2'])).redistribute(tp=S(1))

def loss_of(x):
    h = F.rms_norm(x, [D], use(nf), eps).redistribute(tp=R)
    logits = F.linear(h, use(head)).float()
    return loss_parallel(logits.view(B * T, V), tgt.view(B * T))

e = embedding(ids, use(emb)).redistribute(tp=S(1))
if recompute == 0:
    x = e
    for p in blocks:
        x = block(x, p)
    loss = loss_of(x)
    backward(loss)
else:
    x = e.detach()
    kept = []
    for p in blocks:
        kept.append(x)
        x = block(x, {k: p[k].detach() for k in p.keys()}).detach()
    x = x.requires_grad_()
    loss = loss_of(x)
    backward(loss)
    g = x.grad
    for l in range(layers):
        a = kept.pop().detach().requires_grad_()
        b = block(a, blocks[layers - 1 - l])
        b.backward(g)
        g = a.grad
    e.backward(g)

n = emb.numel() + head.numel() + nf.numel()
for p in blocks:
    for k in p.keys():
        n += p[k].numel()
assert n == layers * (D * (2 * H * hd + 2 * KV * hd + 3 * FF) + 2 * D) + 2 * V * D + D
print('parameters', n)
