"""A game in which you are the network, and break a faulty protocol in as few moves as you can.

    Game()       opens level 1
    Game(7)      opens level 7

Each level consists of a small scenario with one of the known bugs (`labkit.worlds.sim.variants`),
and a promise to break. Par is the smallest possible number of moves; this is known because all
shorter plays have been tried. With the correct protocol, no order of messages breaks a promise in
any level; this is known because every order has been tried.

    levels  the levels: scenario, goal, par, and how many states were tried
    par     the search that finds and proves par
    game    the view
"""
