# Gradients of small programs whose numbers are exact.
def leaf(values):
    return place(tensor(values)).detach().requires_grad_()
def square(x):
    return (x * x).sum()
def cubic(x):
    return (x ** 3).sum()
def rows(x):
    return (x.sum(1) ** 2).sum()
def columns_mean(x):
    return (x.mean(0) * 4).sum()
def chosen(x):
    return x[1].sum() * 3 + x[:, 0].sum() - x[2, 1]
def gathered(x):
    return x[[0, 0, 2]].sum() + (x[:, [1, 1]] * 2).sum()
def kinked(x):
    return relu(x).sum() + abs(x).sum() + x.clamp(-1, 2).sum()
def largest(x):
    return x.max() * 2 + x.amin(0).sum() + x.max(1)[0].sum()
def joined(x):
    return (cat([x, x * 2], dim=0) * cat([x * 0 + 1, x * 0 + 3], dim=0).detach()).sum()
def turned(x):
    return (x.t() @ x).sum()
def chained(x):
    y = x * 2
    z = y + x
    y = z * y
    return y.sum() - z.sum()
def masked(x):
    return where(x > 1, x * x, -x).sum() + x.masked_fill(x < 0, 0).sum()
def looped(x):
    total = x.sum() * 0
    for i in range(3):
        if i != 1:
            total = total + (x[i] * (i + 1)).sum()
    return total
def cumulative(x):
    return x.cumsum(0).sum() + x.cumsum(1)[:, -1].sum()
def shaped(x):
    return (x[1:] * x.t()[:2]).sum() + x.tril().sum()
def divided(x):
    return (x / 4).sum() + (2 / (x * 0 + 4)).sum() + (x - 2 * x).sum()
def stopped(x):
    return (x * x.detach()).sum()
def broadcast(x):
    return (x * x[0]).sum() + (x + x[:, :1]).sum()
values = [[1.0, -2.0, 3.0], [0.5, 4.0, -1.0], [2.0, 0.25, 8.0]]
for name, f in [("square", square), ("cubic", cubic), ("rows", rows),
                ("columns_mean", columns_mean),
                ("chosen", chosen), ("gathered", gathered), ("kinked", kinked), ("largest",
                                                                                 largest),
                ("joined", joined), ("turned", turned), ("chained", chained), ("masked", masked),
                ("looped", looped), ("cumulative", cumulative), ("shaped", shaped),
                ("divided", divided), ("stopped", stopped), ("broadcast", broadcast)]:
    x = leaf(values)
    loss = f(x)
    loss.backward()
    print(name, loss.item())
    show("gradient", x.grad)
x, w = leaf(values), leaf([[2.0, 1.0], [-1.0, 0.5], [4.0, -2.0]])
(x @ w).sum().backward()
show("of x", x.grad)
show("of w", w.grad)
((x @ w).relu() ** 2).sum().backward()
show("added up in x", x.grad)
show("added up in w", w.grad)
with no_grad():
    show("a step", w - 0.5 * w.grad)
g = grad((w * x[:, :2]).sum(), [w])
show("grad", g[0])
print(w.requires_grad, x.requires_grad, (x * 2).requires_grad, x.detach().requires_grad, w.is_leaf)
